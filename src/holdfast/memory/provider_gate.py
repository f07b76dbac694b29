"""`ProviderGate`: every call into a memory provider passes it, because foreign code may never return.

Each call runs on a thread that belongs to that provider alone: its write lane, its recall lane, or the gate's
own thread for everything else (import, construction, `is_available`, prompt block, tool schemas, checks). The
gate knows which calls are running, since when, and their deadlines. The caller goes on without a late answer,
and no further call starts on that thread until the late one returns. So a provider that hangs blocks at most
three threads, all its own. `bounds.py` limits the size of the answers.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, ProviderLate, ProviderUnavailable, ScopeNotKept
from holdfast.memory.contract import KeepsScopes, MemoryProvider
from holdfast.sessions.contract import OWNER

logger = logging.getLogger(__name__)

T = TypeVar("T")

ANSWER_SECONDS = 5.0
"""Deadline of calls about the provider itself, such as `is_available` and `get_tool_schemas`."""
WRITE_SECONDS = 60.0
"""Deadline of a delivery, a boundary hook and `initialize`."""
FRESH_SECONDS = 1.0
"""Conversations that begin within this time share one answer about the provider itself."""
MAX_WAITING = 64


@dataclass(slots=True, eq=False)
class RunningCall:
    """A call into the provider that is queued or has not returned."""

    what: str
    began: float
    deadline: float
    thread: int = 0
    is_logged: bool = False


class ProviderGate:
    """Runs the calls into one provider and knows which of them are late."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self._clock = clock
        self._lock = threading.Lock()  # guards the fields below
        self._running: list[RunningCall] = []
        self._waiting: deque[tuple[RunningCall, Callable[[], None]]] = deque()
        self._current: RunningCall | None = None
        self._worker: threading.Thread | None = None

    def now(self) -> float:
        return self._clock.monotonic()

    # on the gate's own thread

    def submit(self, what: str, call: Callable[[], T], seconds: float = ANSWER_SECONDS) -> "Future[T]":
        """Queue a call for the gate's own thread.

        While an earlier call is late, the future fails with `ProviderUnavailable`.
        """
        now = self._clock.monotonic()
        asked, answer = RunningCall(what, now, now + seconds), Future[T]()
        with self._lock:
            if problem := self._refusal(now):
                return refused_answer(ProviderUnavailable(self.name, problem=problem))
            self._waiting.append((asked, partial(self._answer, asked, call, answer)))
            if self._worker is None:
                self._worker = threading.Thread(target=self._work, name=f"memory-{self.name}", daemon=True)
                self._worker.start()
        return answer

    def answer(self, what: str, call: Callable[[], T], seconds: float = ANSWER_SECONDS) -> T:
        """Run a call on the gate's own thread and wait for it; raises `ProviderLate` after the deadline."""
        answer = self.submit(what, call, seconds)
        try:
            return answer.result(seconds)
        except TimeoutError:
            if answer.done():
                raise  # the provider raised it
            answer.cancel()
            raise ProviderLate(self.name, what, seconds) from None

    def refusal(self) -> str:
        """Why the gate's own thread accepts no call now; empty when it does."""
        with self._lock:
            return self._refusal(self._clock.monotonic())

    def _refusal(self, now: float) -> str:
        if self._current is not None and now > self._current.deadline:
            return f"it has not returned from {self._current.what} yet"
        return "too many calls wait for it already" if len(self._waiting) >= MAX_WAITING else ""

    def _work(self) -> None:
        # The thread ends when the queue is empty, so an idle provider has no thread.
        while (step := self._next()) is not None:
            step()
            del step  # it holds the provider's answer

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            self._current = None
            if not self._waiting:
                self._worker = None
                return None
            self._current, step = self._waiting.popleft()
            return step

    def _answer(self, asked: RunningCall, call: Callable[[], T], answer: "Future[T]") -> None:
        if not answer.set_running_or_notify_cancel():
            return
        try:
            result = self._run(asked, call)
        except BaseException as error:  # noqa: BLE001 - passed on to the caller
            answer.set_exception(error)
        else:
            answer.set_result(result)

    # on a lane

    def run(self, what: str, seconds: float, call: Callable[[], T]) -> T:
        """Run a call on the current thread, a lane of the provider, and track it until it returns."""
        now = self._clock.monotonic()
        return self._run(RunningCall(what, now, now + seconds), call)

    def _run(self, out: RunningCall, call: Callable[[], T]) -> T:
        out.thread = threading.get_ident()
        with self._lock:
            self._running.append(out)
        try:
            return call()
        finally:
            with self._lock:
                self._running.remove(out)
            if out.is_logged:
                took = self._clock.monotonic() - out.began
                logger.warning(
                    "memory.late_call_returned",
                    extra={"provider": self.name, "call": out.what, "seconds": round(took, 1)},
                )

    # what is late

    def late_call(self, thread: int | None = None) -> str | None:
        """A description of the oldest call past its deadline; None when no call is late.

        With `thread`, only calls on that thread count.
        """
        now = self._clock.monotonic()
        with self._lock:
            late = [each for each in self._running if now > each.deadline and thread in (None, each.thread)]
        if not late:
            return None
        oldest = min(late, key=lambda each: each.began)
        return f"{oldest.what} has not returned for {now - oldest.began:.0f} s"

    def log_late_calls(self) -> None:
        """Log each late call, once."""
        now = self._clock.monotonic()
        with self._lock:
            fresh = [each for each in self._running if now > each.deadline and not each.is_logged]
            for each in fresh:
                each.is_logged = True
        for each in fresh:
            logger.warning(
                "memory.call_is_late",
                extra={"provider": self.name, "call": each.what, "seconds": round(now - each.began, 1)},
            )


@dataclass(frozen=True, slots=True)
class GatedProvider:
    """A provider with its own name and its gate."""

    name: str
    provider: MemoryProvider
    gate: ProviderGate
    stores_on_host: bool = False

    def serves(self, scope: str) -> bool:
        """Whether the provider may be used for a scope: any but the owner's needs `KeepsScopes`."""
        return scope == OWNER or isinstance(self.provider, KeepsScopes)

    def of(self, scope: str) -> MemoryProvider:
        """The provider for one scope; on a thread of the provider's. `ScopeNotKept` when it has none."""
        if scope == OWNER:
            return self.provider
        if isinstance(self.provider, KeepsScopes):
            return self.provider.for_scope(scope)
        raise ScopeNotKept(self.name)

    def answer(self, what: str, call: Callable[[], T], seconds: float = ANSWER_SECONDS) -> T:
        """Run a call and wait for its answer; raises `ProviderLate` after the deadline."""
        return self.gate.answer(what, call, seconds)


class CachedAnswer(Generic[T]):
    """A call that runs at most once at a time, and once a second.

    Its last answer is used while the provider is late.
    """

    def __init__(self, gate: ProviderGate, what: str, call: Callable[[], T], nothing: T) -> None:
        self._gate = gate
        self._what = what
        self._call = call
        self._lock = threading.Lock()  # guards the fields below
        self._pending: Future[T] | None = None
        self._answered_at = 0.0
        self.last = nothing

    def ask(self, seconds: float) -> "Future[T]":
        """Start the call, or join the one that is running."""
        with self._lock:
            if self._pending is not None and self._is_fresh(self._pending):
                return self._pending
            if self._pending is None or self._pending.done():
                self._pending = self._gate.submit(self._what, self._call, seconds)
                self._pending.add_done_callback(self._keep)
            elif problem := self._gate.refusal():
                return refused_answer(ProviderUnavailable(self._gate.name, problem=problem))
            return self._pending

    def _is_fresh(self, answer: "Future[T]") -> bool:
        if not answer.done() or answer.cancelled() or answer.exception() is not None:
            return False
        return self._gate.now() - self._answered_at < FRESH_SECONDS

    def latest(self, answer: "Future[T]") -> tuple[T, bool]:
        """The newest answer, and whether the provider is late with a new one."""
        if not answer.done() or answer.cancelled():
            return self.last, True
        # Read from the future itself: a thread that waits for it may be woken before `_keep` has run.
        if (error := answer.exception()) is None:
            return answer.result(), False
        return self.last, isinstance(error, ProviderUnavailable)

    def _keep(self, answer: "Future[T]") -> None:
        if answer.cancelled():
            return
        if answer.exception() is None:
            self.last = answer.result()
            self._answered_at = self._gate.now()
        elif not isinstance(answer.exception(), ProviderUnavailable):
            logger.warning(
                "memory.provider_failed",
                exc_info=answer.exception(),
                extra={"provider": self._gate.name, "call": self._what},
            )


def gate_provider(provider: MemoryProvider, clock: Clock) -> GatedProvider:
    """Give a provider object a gate of its own."""
    return GatedProvider(provider.name, provider, ProviderGate(provider.name, clock))


def refused_answer(error: HoldfastError) -> "Future[Any]":
    """A future that has failed: the provider accepts no call."""
    answer: Future[Any] = Future()
    answer.set_exception(error)
    return answer
