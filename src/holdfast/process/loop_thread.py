"""`LoopThread`: an event loop on its own daemon thread, for blocking code that uses an async client.

Such a client must stay on one thread and be closed on it. Any thread may call `run` and `close`. Even an
`atexit` hook may call them: asyncio's default executor no longer works then, but nothing here needs it
(`event_loop.py`).
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from typing import Any, TypeVar

from holdfast.core.errors import PoolClosed
from holdfast.process.event_loop import DaemonLoop

logger = logging.getLogger(__name__)

T = TypeVar("T")

Work = Callable[[], Coroutine[Any, Any, T]]

# How long the thread may take to end cancelled tasks and to run its last call.
UNWIND_SECONDS = 3.0


class LoopThread:
    """Starts its thread with the first call. Once `close` has begun, calls raise `PoolClosed`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closing = threading.Event()
        """Set when `close` begins, so that a call that waits for something can give up."""
        self._changed = threading.Condition()  # guards the fields below
        self._loop: DaemonLoop | None = None
        self._thread: threading.Thread | None = None
        self._open = 0
        self._spawned: set[asyncio.Task[None]] = set()  # touched on the loop alone

    def run(self, work: Work[T], timeout: float | None = None) -> T:
        """Run a coroutine on the thread and wait for it.

        After `timeout` it is cancelled and raises TimeoutError.
        """
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
        """Start background work from a coroutine of this loop; `close` cancels it."""
        task = asyncio.get_running_loop().create_task(self._logged(work))
        self._spawned.add(task)  # the loop itself holds a task only weakly
        task.add_done_callback(self._spawned.discard)
        return task

    def close(self, last: Work[object] | None = None, patience: float = 0.0) -> bool:
        """Refuse new calls, wait `patience` seconds for running ones, cancel the rest, then run `last`.

        Returns whether the thread has ended. It may be called again, also by several threads at once.
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

    def _running_loop(self) -> DaemonLoop:
        """The loop; the first call starts its thread. The caller holds the lock."""
        if self._loop is None:
            loop = DaemonLoop(self.name)
            thread = threading.Thread(target=self._serve, args=[loop], name=self.name, daemon=True)
            try:
                thread.start()
            except RuntimeError as cause:
                # Python 3.12 starts no thread once the interpreter exits.
                loop.close()
                raise PoolClosed(self.name) from cause
            self._loop, self._thread = loop, thread
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
            # Nobody awaits this task, so only the log shows its failure.
            logger.exception("own_loop.failed", extra={"loop": self.name})

    def _serve(self, loop: DaemonLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _finish(self, loop: DaemonLoop, last: Work[object] | None) -> None:
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
