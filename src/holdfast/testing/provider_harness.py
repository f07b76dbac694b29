"""`ProviderHarness`: one provider for one check, with its store, managers and backend."""

import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from holdfast.core.clock import SystemClock
from holdfast.memory.contract import MemoryProvider
from holdfast.memory.manager import MemoryManager
from holdfast.memory.retry import RetryPolicy
from holdfast.sessions import SessionDB
from holdfast.testing.provider_case import Health, MakeCase, NotOffered, resolved

T = TypeVar("T")

QUICK = RetryPolicy(initial_delay_seconds=0.05, max_delay_seconds=0.2, max_attempts=1000)
LOOK_EVERY = 0.05
CLAIM_SECONDS = 20.0
"""A claim of a killed process runs out after 12 s."""
NEVER = threading.Event()


class ProviderHarness:
    """Everything one check needs."""

    def __init__(self, make_case: MakeCase, spec: str, folder: Path, patience: float) -> None:
        self._spec = spec
        self.patience = patience
        self.clock = SystemClock()
        self.backend = folder / "backend"
        self.backend.mkdir()
        self.store_path = folder / "store.db"
        self.store = SessionDB(self.store_path)
        self.case = make_case(self.backend)
        self.case.start()
        self._managers: list[MemoryManager] = []
        self._children: list[subprocess.Popen[str]] = []

    # a provider at work

    def config(self, provider: MemoryProvider) -> dict[str, Any]:
        return {"config": resolved(provider, self.case.config())}

    def manager(
        self, provider: MemoryProvider | None = None, *, drain: float = 10.0, recall: float = 5.0
    ) -> MemoryManager:
        """A manager on the check's store, with the provider on its lanes and quick retries."""
        memory = MemoryManager(self.store, policy=QUICK, drain_seconds=drain, recall_seconds=recall)
        self._managers.append(memory)
        provider = provider or self.case.make()
        memory.add_provider(provider, **self.config(provider))
        return memory

    def say(self, memory: MemoryManager, word: str, session: str = "session-1") -> None:
        """Complete a turn in which the user says a unique word."""
        memory.sync_all(sentence(word), f"I will remember that of {word}.", session_id=session)

    def deliver(self, memory: MemoryManager, session: str = "session-1") -> None:
        """Wait until everything is delivered. A provider that stores at a boundary gets a boundary."""
        done = memory.flush_pending(self.patience)
        require(done, f"not delivered in {self.patience:g} s: {_errors(memory)}")
        if self.case.commits:
            messages = [each.message for each in self.store.sessions.read(session)]
            memory.on_session_end(messages, session_id=session, timeout=self.patience)

    def all_delivered(self, memory: MemoryManager) -> None:
        """Wait until no delivery is left, including those that a dead process had claimed."""
        self.until(
            lambda: not memory.status()[0].owed,
            CLAIM_SECONDS + self.patience,
            "what was owed is not delivered",
        )

    # looking

    def copies(self, memory: MemoryManager, word: str) -> int:
        """How often a word is stored: counted in the backend, or else in the recalled text."""
        try:
            return sum(word in text for text in self.case.stored())
        except NotOffered:
            return memory.prefetch_all(sentence(word), session_id="looking").count(word)

    def arrived(self, memory: MemoryManager, word: str) -> None:
        """Wait until a word is stored."""
        self.until(
            lambda: self.copies(memory, word) > 0,
            self.case.settle_seconds,
            f"{word!r} was delivered and is not found",
        )

    def once(self, memory: MemoryManager, *words: str) -> None:
        """Wait until the words are stored, and require that none is stored more than once."""
        for word in words:
            self.arrived(memory, word)
        copies_of_one = self._copies_of_one_turn(memory)
        doubled = [word for word in words if self.copies(memory, word) > copies_of_one]
        require(not doubled, f"kept more than once: {', '.join(doubled)}")

    def _copies_of_one_turn(self, memory: MemoryManager) -> int:
        try:
            self.case.stored()
        except NotOffered:
            self.say(memory, "plainword", "session-plain")
            self.deliver(memory, "session-plain")
            self.arrived(memory, "plainword")
            return self.copies(memory, "plainword")
        return 1

    def until(self, condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
        deadline = self.clock.monotonic() + seconds
        while not condition():
            require(self.clock.monotonic() < deadline, f"{otherwise} after {seconds:g} s")
            self.clock.wait(NEVER, LOOK_EVERY)

    def set_health(self, health: Health) -> None:
        self.case.set_health(health)

    # other processes

    def child(self, scene: str, *arguments: object) -> "subprocess.Popen[str]":
        """Another process with the same provider, store and folder; see `provider_child.py`."""
        facts = {
            "spec": self._spec,
            "backend": str(self.backend),
            "store": str(self.store_path),
            "values": dict(self.case.config()),
        }
        command = [sys.executable, "-m", "holdfast.testing.provider_child", scene, json.dumps(facts)]
        # A child imports the provider from the same path, and warns about resources that stay open.
        environment = {
            **os.environ,  # noqa: TID251 - a child gets what its parent has
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONASYNCIODEBUG": "0",
            "PYTHONWARNINGS": "default::ResourceWarning",
        }
        started = subprocess.Popen(
            [*command, *map(str, arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._children.append(started)
        return started

    def close(self) -> None:
        for child in self._children:
            if child.poll() is None:  # a check may have found a process that hangs
                child.kill()
                child.communicate()
        try:
            for memory in self._managers:
                memory.shutdown_all()
        finally:
            self.store.close()
            self.case.stop()


class InterceptedProvider:
    """Wraps a provider, and runs functions before and after each delivery."""

    def __init__(
        self,
        inner: MemoryProvider,
        before: Callable[[], object] = lambda: None,
        after: Callable[[], object] = lambda: None,
    ) -> None:
        self._inner = inner
        for name in ("sync_turns", "sync_turn"):
            method = getattr(inner, name, None)
            if method is not None:
                setattr(self, name, _around(method, before, after))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the provider has
        return getattr(self._inner, name)


def _around(method: Callable[..., object], before: Callable[[], object], after: Callable[[], object]) -> Any:  # noqa: ANN401
    @functools.wraps(method)
    def call(*args: object, **kwargs: object) -> object:
        before()
        result = method(*args, **kwargs)
        after()
        return result

    return call


def check(name: str, title: str) -> Callable[[T], T]:
    """Give a test its name and title on the report card."""

    def named(test: T) -> T:
        test.provider_check = (name, title)  # type: ignore[attr-defined]
        return test

    return named


def require(kept: bool, otherwise: str) -> None:
    """Assert a condition, with a message for the author of the provider."""
    if not kept:
        raise AssertionError(otherwise)


def sentence(word: str) -> str:
    """A user message that search by words and by meaning both find."""
    return f"Please remember that my favourite place is called {word}."


def _errors(memory: MemoryManager) -> str:
    return "; ".join(f"{each.owed} owed, last error {each.last_error}" for each in memory.status())
