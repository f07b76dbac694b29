"""`ClientLoop`: where the async client of a memory server lives, and how long it may take to end there."""

import atexit
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from holdfast.core.errors import MemoryClosed, PoolClosed, ProviderUnavailable
from holdfast.process.own_loop import OwnLoop, Work

T = TypeVar("T")

# With the closing of the client, ten seconds.
DRAIN_SECONDS = 8.0
# At exit the manager has drained before; what is still under way then is owed, and sent at the next start.
DRAIN_AT_EXIT_SECONDS = 2.0


class ClientLoop(OwnLoop):
    """An event loop of a provider's own; what fails there has the name that memory has for it."""

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
    """A provider that can be told how long its end may take."""

    def shutdown(self, patience: float) -> None: ...


def asked_once(provider: str, ask: Callable[[ClientLoop], Coroutine[Any, Any, T]], seconds: float) -> T:
    """What a server answers to one question, on a loop that ends with it: for a provider's `check`."""
    loop = ClientLoop(provider)
    try:
        return loop.run(lambda: ask(loop), seconds)
    finally:
        loop.close()


def close_at_exit(provider: Closable) -> None:
    """Have a provider shut down at exit, should it live until then.

    Called before any lane registers its own hook, so at exit it runs behind that drain, not before it.
    """
    atexit.register(_close, weakref.ref(provider))


def _close(provider: "weakref.ref[Closable]") -> None:
    alive = provider()
    if alive is not None:
        alive.shutdown(DRAIN_AT_EXIT_SECONDS)
