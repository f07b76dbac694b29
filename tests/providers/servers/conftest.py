"""Fixtures: a fake server with its provider, and managers on a store of the test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions import SessionDB
from tests.providers.servers.memory_servers import BACKENDS, Backend

QUICK = RetryPolicy(initial_delay_seconds=0.001, max_delay_seconds=0.02, max_attempts=1000)


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    made = BACKENDS[request.param]()
    made.server.start()
    yield made
    made.server.stop()


class Life:
    """One life of a program: a store, a manager and a provider on the test's folder."""

    def __init__(self, backend: Backend, folder: Path, key: str | None = None) -> None:
        self.db = SessionDB(folder / "holdfast.db")
        self.memory = MemoryManager(self.db, policy=QUICK, drain_seconds=5.0)
        self.provider: MemoryProvider = backend.make(folder)
        config = backend.config() if key is None else backend.config(key)
        self.memory.add_provider(self.provider, config=config)

    def say(self, text: str, session: str = "s1") -> None:
        self.memory.sync_all(text, f"You said: {text}", session_id=session)

    def end(self) -> list[str]:
        owed = self.memory.shutdown_all()
        self.db.close()
        return owed

    @property
    def owed(self) -> int:
        return self.memory.status()[0].owed

    @property
    def last_error(self) -> str:
        return self.memory.status()[0].last_error or ""


@pytest.fixture
def live(backend: Backend, tmp_path: Path) -> Iterator[Callable[..., Life]]:
    """Begins lives of a program, one after another, on one folder."""
    lives: list[Life] = []

    def begin(key: str | None = None) -> Life:
        lives.append(Life(backend, tmp_path, key))
        return lives[-1]

    yield begin
    for life in lives:
        life.end()
