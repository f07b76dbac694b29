"""`OwnLoop`: an event loop on a daemon thread of its own, for an async client that blocking code uses.

Such a client must stay on one thread and be closed on it. Calls come from any thread; `close` may too, even
from an `atexit` hook, because nothing here needs asyncio's default executor, which is gone by then.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Executor, Future
from functools import partial
from typing import Any, TypeVar

from holdfast.core.errors import PoolClosed
from holdfast.process.daemon_pool import DaemonPool

logger = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]

RESOLVERS = 4
RESOLVERS_BACKLOG = 64
# How long the thread may take to unwind what was cancelled and to run its last call.
UNWIND_SECONDS = 3.0


class _Loop(asyncio.SelectorEventLoop):
    """Looks names up on daemon threads: the default executor refuses work once the interpreter exits."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._pool = DaemonPool(f"{name}-names", RESOLVERS, RESOLVERS_BACKLOG)

    def run_in_executor(  # type: ignore[override]
        self,
        executor: Executor | None,
        func: Callable[..., T],
        *args: Any,  # noqa: ANN401 - as asyncio has it
    ) -> "asyncio.Future[T]":
        """No executor means ours."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return asyncio.wrap_future(self._pool.submit(func, *args), loop=self)

    def close(self) -> None:
        self._pool.close(0.0)
        super().close()


class OwnLoop:
    """Starts its thread with the first call. Once `close` has begun, calls raise `PoolClosed`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing = threading.Event()
        """Set from the moment that `close` begins: a call that waits for something may give up."""
        self._changed = threading.Condition()  # guards the fields below
        self._loop: _Loop | None = None
        self._thread: threading.Thread | None = None
        self._open = 0
        self._ended = threading.Event()
        self._spawned: set[asyncio.Task[None]] = set()  # touched on the loop alone

    @property
    def is_running(self) -> bool:
        with self._changed:
            return self._thread is not None and not self._ended.is_set()

    def run(self, work: Work[T], timeout: float | None = None) -> T:
        """Run a coroutine there and wait for it; when time is up it is cancelled, and TimeoutError raised."""
        with self._changed:
            if self.closing.is_set():
                raise PoolClosed(self.name)
            loop = self._running_loop()
            self._open += 1
        try:
            return self._await(asyncio.run_coroutine_threadsafe(work(), loop), timeout)
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Begin, from the loop itself, what nobody need wait for; `close` cancels it."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._spawned.add(task)  # the loop itself holds a task only weakly
        task.add_done_callback(self._spawned.discard)
        return task

    def close(self, last: Work[object] | None = None, patience: float = 0.0) -> bool:
        """Take no more calls, let those under way end for `patience` s, cancel the rest, run `last`.

        Returns whether the thread has ended. May be called again, and by several threads at once.
        """
        with self._changed:
            first = not self.closing.is_set()
            self.closing.set()
            loop, thread = self._loop, self._thread
            self._changed.wait_for(lambda: not self._open, patience)
        if loop is None or thread is None:
            return True
        if first:
            with contextlib.suppress(RuntimeError):  # the loop has ended by itself
                loop.call_soon_threadsafe(partial(self._finish, loop, last))
        if thread is not threading.current_thread():
            thread.join(UNWIND_SECONDS)
        return not thread.is_alive()

    def _running_loop(self) -> _Loop:
        """The loop, its thread started by the first who asks. Called under the lock."""
        if self._loop is None:
            self._loop = _Loop(self.name)
            self._thread = threading.Thread(
                target=self._serve, args=[self._loop], name=self.name, daemon=True
            )
            self._thread.start()
        return self._loop

    def _await(self, result: "Future[T]", timeout: float | None) -> T:
        try:
            return result.result(timeout)
        except CancelledError as cause:
            raise PoolClosed(self.name) from cause
        except TimeoutError:
            result.cancel()
            raise

    async def _logged(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except Exception:
            # A worker of its own: nobody else would see it.
            logger.exception("own_loop.failed", extra={"loop": self.name})

    def _serve(self, loop: _Loop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            self._ended.set()

    def _finish(self, loop: _Loop, last: Work[object] | None) -> None:
        ending = loop.create_task(self._unwind(last))
        ending.add_done_callback(lambda _: loop.stop())

    async def _unwind(self, last: Work[object] | None) -> None:
        me = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not me]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=UNWIND_SECONDS / 2)
        if last is not None:
            await self._logged(last())
