"""Fixtures for memory: a manager on every store, in memory, on SQLite and on PostgreSQL."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.memory import MemoryManager
from holdfast.memory.config import ProviderConfig
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from tests.sessions.databases import SharedPostgres, sqlite_file

STORES = ("memory", "sqlite", "postgres")
QUICK = RetryPolicy(initial_delay_seconds=0.001, max_delay_seconds=0.01, max_attempts=5)

MakeManager = Callable[..., MemoryManager]


class HereOnly(RecordingProvider):
    """Says that its memory is in files on this machine."""

    def stores_on_host(self, config: ProviderConfig) -> bool:
        return True


@pytest.fixture(params=STORES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], SessionDB | None]]:
    """Opens the store of one test, as often as processes would; None for memory."""
    opened: list[SessionDB] = []
    url = f"sqlite:///{sqlite_file(tmp_path)}"
    if request.param == "postgres":
        # On the real clock: retries come due by themselves.
        shared: SharedPostgres = request.getfixturevalue("shared_postgres")
        url = shared.empty()

    def open_one() -> SessionDB | None:
        if request.param == "memory":
            return None
        opened.append(SessionDB.open(url))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def make_manager(open_store: Callable[[], SessionDB | None]) -> Iterator[MakeManager]:
    """Makes managers on the test's store, with quick retries, shut down when the test ends."""
    made: list[MemoryManager] = []

    def make(drain_seconds: float = 5.0, policy: RetryPolicy = QUICK) -> MemoryManager:
        made.append(MemoryManager(open_store(), policy=policy, drain_seconds=drain_seconds))
        return made[-1]

    yield make
    for each in made:
        each.shutdown_all()
