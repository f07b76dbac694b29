"""A harness for lifecycle tests: sessions, and agents that fail, hang and die on command."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from holdfast.core.contract import Clock
from holdfast.memory import SessionLifecycle
from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import LONG, completed_turn, until

T = TypeVar("T")

SID = "s1"


class Died(BaseException):
    """What no `except Exception` may swallow."""


class FakeAgent:
    """Counts its commits. The next ones raise, or return, what `next_outcomes` says."""

    def __init__(self, name: str = "agent") -> None:
        self.name = name
        self.calls = 0
        self.next_outcomes: list[BaseException | bool | None] = []
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.closed_after: int | None = None

    def __repr__(self) -> str:
        return self.name

    def commit_memory_session(self) -> bool | None:
        self.calls += 1
        self.entered.set()
        assert self.gate.wait(LONG)
        outcome = self.next_outcomes.pop(0) if self.next_outcomes else None
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def close(self) -> None:
        """Remember how many commits had ended when the resources were closed."""
        assert self.gate.is_set(), "closed under a commit in flight"
        self.closed_after = self.calls

    def is_closed(self) -> bool:
        return self.closed_after is not None

    def hold(self) -> None:
        """The next commit stays in flight until `release`."""
        self.entered.clear()
        self.gate.clear()

    def release(self) -> None:
        self.gate.set()


class LifecycleHarness:
    """One lifecycle. `complete` is a completed turn as the host does it: journalled, then marked."""

    def __init__(self, store: SessionDB | None, *, known: bool, clock: Clock | None = None) -> None:
        self.store = store
        self.known = known
        self.life = SessionLifecycle(store, clock=clock, commit_timeout=LONG)

    def restarted_with(self, clock: Clock) -> SessionLifecycle:
        self.life = SessionLifecycle(self.store, clock=clock, commit_timeout=10)
        return self.life

    def complete(self, sid: str = SID, agent: FakeAgent | None = None) -> int:
        self.journal(sid)
        return self.life.mark_turn_completed(sid, agent)

    def journal(self, sid: str = SID) -> None:
        """A completed turn that nobody has marked yet; nothing for a session outside the store."""
        if self.store is None or not self.known:
            return
        if self.store.get_session(sid) is None:
            self.store.create_session(sid, source="test")
        completed_turn(self.store, sid)

    def dirty(self, sid: str = SID) -> bool:
        dirty = self.life.has_uncommitted_work(sid)
        if self.store is not None and self.known:
            assert dirty == (sid in self.store.sessions.uncommitted())
        return dirty


def in_thread(call: Callable[[], T]) -> "Future[T]":
    """Run a call on a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def start_commit(harness: LifecycleHarness, agent: FakeAgent, sid: str = SID) -> "Future[bool]":
    """Begin a commit by this agent that stays in flight until it is released."""
    agent.hold()
    commit = in_thread(lambda: harness.life.commit_session_memory(sid))
    assert agent.entered.wait(LONG)
    return commit


__all__ = ["LONG", "SID", "Died", "FakeAgent", "LifecycleHarness", "in_thread", "start_commit", "until"]
