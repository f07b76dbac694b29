"""`ClientLoop`: the event loop for the async client of a memory server, and its shutdown."""

import atexit
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.core.errors import MemoryClosed, PoolClosed, ProviderUnavailable
from holdfast.process.loop_thread import LoopThread, Work

T = TypeVar("T")

# Together with closing the client, a shutdown takes at most ten seconds.
DRAIN_SECONDS = 8.0
# At exit the manager has drained already; a turn that is still being sent is sent again at the next start.
DRAIN_AT_EXIT_SECONDS = 2.0


class ClientLoop(LoopThread):
    """The event loop of one provider; translates its errors into those of the memory contract."""

    def __init__(self, provider: str) -> None:
        super().__init__(f"memory-{provider}")
        self._provider = provider

    def run(self, work: Work[T], timeout: float | None = None) -> T:
        try:
            return super().run(work, timeout)
        except PoolClosed as cause:
            raise MemoryClosed(self._provider) from cause
        except TimeoutError as cause:
            when = "time" if timeout is None else f"{timeout:g} s"
            raise ProviderUnavailable(self._provider, problem=f"no answer in {when}") from cause


class Closable(Protocol):
    """A provider whose shutdown has a time limit."""

    def shutdown(self, patience: float) -> None: ...


def ask_once(provider: str, ask: Callable[[ClientLoop], Coroutine[Any, Any, T]], seconds: float) -> T:
    """Run one request on a temporary loop: for the `check` of a provider."""
    loop = ClientLoop(provider)
    try:
        return loop.run(lambda: ask(loop), seconds)
    finally:
        loop.close()


def close_at_exit(provider: Closable) -> None:
    """Shut the provider down at exit if it still exists then.

    Call this before the manager registers its own exit hook: hooks run in reverse order, so the drain of
    the manager comes first.
    """
    atexit.register(_close, weakref.ref(provider))


def _close(provider: "weakref.ref[Closable]") -> None:
    alive = provider()
    if alive is not None:
        alive.shutdown(DRAIN_AT_EXIT_SECONDS)
