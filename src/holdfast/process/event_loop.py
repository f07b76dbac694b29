"""`DaemonLoop`: an event loop that never delays the exit of the interpreter.

asyncio's default executor joins its threads at the end, so one call that hangs there delays the exit. This
loop runs such calls (`run_in_executor(None, …)`, `asyncio.to_thread`) on a daemon pool instead, and looks up
host names on separate threads. `run` is `asyncio.run` with such a loop. `use_daemon_loops` makes every new
loop of the process a `DaemonLoop`.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar

from holdfast.process.daemon_pool import DaemonPool
from holdfast.process.name_lookup import AddressInfo, NameLookup

T = TypeVar("T")

WORKERS = 32
BACKLOG = 10_000


class DaemonLoop(asyncio.SelectorEventLoop):
    """An event loop whose default executor is a daemon pool."""

    def __init__(self, name: str = "loop") -> None:
        super().__init__()
        self._pool = DaemonPool(f"{name}-executor", WORKERS, BACKLOG)
        self._names = NameLookup(keep=True)

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Executor | None,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401 - as asyncio has it
    ) -> "asyncio.Future[T]":
        """Run `func` on `executor`, or on the daemon pool when it is None."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return asyncio.wrap_future(self._pool.submit(func, *args), loop=self)

    def set_default_executor(self, executor: Executor) -> None:
        """Do nothing: the default executor is always the daemon pool."""

    async def getaddrinfo(self, host: Any, port: Any, **options: int) -> list[AddressInfo]:  # noqa: ANN401
        return await self._names.find(host, port, **options)

    def close(self) -> None:
        if not self.is_closed() and not self.is_running():
            self._pool.close(0.0)
            self._names.close()
        super().close()


class _DaemonLoopPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return DaemonLoop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a new `DaemonLoop`, as `asyncio.run` does on its loop."""
    with asyncio.Runner(loop_factory=DaemonLoop) as runner:
        return runner.run(work)


def use_daemon_loops() -> None:
    """Make every new loop of this process a `DaemonLoop`. For programs, not for libraries."""
    # Python 3.16 removes policies. Until then nothing else affects loops that other code starts.
    asyncio.set_event_loop_policy(_DaemonLoopPolicy())  # type: ignore[deprecated]
