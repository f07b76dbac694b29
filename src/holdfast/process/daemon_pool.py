"""`DaemonPool`: a limited number of daemon threads for blocking work.

`ThreadPoolExecutor` is not used: it registers a hook that joins its workers when the interpreter exits, so
one call that hangs keeps the process alive for ever. Read `contract.py` first.
"""

import contextvars
import functools
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from holdfast.core.errors import PoolClosed, PoolSaturated
from holdfast.process.contract import PoolStats

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class DaemonPool:
    """A bounded executor with daemon workers that the interpreter never joins (X1).

    It holds at most `workers + backlog` calls at once. More calls are refused, never dropped. The owner
    closes the pool. A forked child inherits the object but not the threads, so in the child the pool is
    closed.
    """

    def __init__(self, name: str, workers: int, backlog: int) -> None:
        if workers < 1:
            raise ValueError(f"pool {name!r} needs at least one worker, not {workers}")
        if backlog < 0:
            raise ValueError(f"pool {name!r} can't have a backlog of {backlog}; 0 is the least")
        self.name = name
        self._workers = workers
        self._backlog = backlog
        self._process = os.getpid()
        # Guards every field below. A future's own lock may be taken inside it, never the reverse.
        self._changed = threading.Condition(threading.Lock())
        self._waiting: OrderedDict[Future[Any], _QueuedCall] = OrderedDict()
        self._alive: dict[threading.Thread, str | None] = {}  # what each worker runs, None: idle
        self._busy = 0  # workers that run something
        self._started = 0
        self._completed = 0
        self._failed = 0
        self._cancelled = 0
        self._rejected = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queue `fn` and return at once. It runs with the caller's context variables.

        Raises `PoolSaturated` when the backlog is full and `PoolClosed` after `close`.
        """
        if not self._is_mine():
            raise PoolClosed(self.name)
        in_context = functools.partial(contextvars.copy_context().run, fn, *args, **kwargs)
        future: Future[T] = Future()
        # A cancelled call frees its slot at once, even when no worker is free to notice it.
        future.add_done_callback(self._release_slot)
        with self._changed:
            try:
                self._accept(future, _QueuedCall(work_name(fn), in_context))
            except (PoolClosed, PoolSaturated):
                self._rejected += 1
                raise
        return future

    def stats(self) -> PoolStats:
        if not self._is_mine():
            return PoolStats(self._workers, 0, 0, self._capacity(), 0, 0, 0, 0)
        with self._changed:
            return PoolStats(
                workers=self._workers,
                busy=self._busy,
                waiting=len(self._waiting),
                capacity=self._capacity(),
                completed=self._completed,
                failed=self._failed,
                cancelled=self._cancelled,
                rejected=self._rejected,
            )

    def running(self) -> list[str]:
        """The calls that run now, each as "worker: function"."""
        if not self._is_mine():
            return []
        with self._changed:
            return self._running(self._alive)

    def close(self, timeout: float) -> list[str]:
        """Refuse new work, cancel calls that have not begun, and wait up to `timeout` seconds for the others.

        Returns the calls that still run, as `running` does. Such a call continues on its daemon thread; call
        `close` again to wait longer.
        """
        if not self._is_mine():
            return []
        with self._changed:
            self._closed = True
            workers = [each for each in self._alive if each is not threading.current_thread()]
            never_begun = list(self._waiting)
            self._waiting.clear()
            self._cancelled += len(never_begun)
            self._changed.notify_all()
        for future in never_begun:
            future.cancel()
            future.set_running_or_notify_cancel()
        with self._changed:
            self._changed.wait_for(lambda: not self._alive.keys() & workers, timeout)
            still_running = self._running(workers)
            ended = [each for each in workers if each not in self._alive]
        for worker in ended:
            worker.join()  # the worker has left its last call and its last lock, so this takes no time
        return still_running

    def _is_mine(self) -> bool:
        # Checked before the lock is used: another thread may have held the lock when the process was forked.
        return os.getpid() == self._process

    def _capacity(self) -> int:
        return self._workers + self._backlog

    def _running(self, among: Iterable[threading.Thread]) -> list[str]:
        return [f"{thread.name}: {work}" for thread in among if (work := self._alive.get(thread))]

    def _accept(self, future: Future[Any], call: "_QueuedCall") -> None:
        if self._closed:
            raise PoolClosed(self.name)
        if self._busy + len(self._waiting) >= self._capacity():
            raise PoolSaturated(self.name, self._workers, self._backlog)
        self._waiting[future] = call
        if len(self._alive) < min(self._workers, self._busy + len(self._waiting)):
            try:
                self._start_worker()
            except RuntimeError as cause:
                # No thread can be started (a limit, or the interpreter is exiting). The call stays queued
                # if there is a worker that can take it.
                if not self._alive:
                    del self._waiting[future]
                    raise PoolSaturated(self.name, self._workers, self._backlog) from cause
        self._changed.notify()

    def _start_worker(self) -> None:
        name = f"{self.name}-{self._started + 1}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._alive[thread] = None
        try:
            thread.start()
        except RuntimeError:
            del self._alive[thread]
            raise
        self._started += 1

    def _work(self) -> None:
        me = threading.current_thread()
        try:
            while self._run_one(me):
                pass
        finally:
            with self._changed:
                del self._alive[me]
                self._changed.notify_all()

    def _run_one(self, me: threading.Thread) -> bool:
        """Run the oldest waiting call; False when the pool is closed.

        A separate function, so that an idle worker holds no reference to the last call.
        """
        with self._changed:
            self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
            if not self._waiting:
                return False
            future, call = self._waiting.popitem(last=False)
            if not future.set_running_or_notify_cancel():
                self._cancelled += 1
                return True
            self._alive[me] = call.name
            self._busy += 1
        result, failure = call.outcome()
        with self._changed:
            self._alive[me] = None
            self._busy -= 1
            self._completed += failure is None
            self._failed += failure is not None
        try:
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)
        except BaseException:  # a done callback may raise anything, and the worker must continue
            logger.exception("pool.callback_failed", extra={"pool": self.name, "work": call.name})
        # The traceback of a failure refers to this frame: the names that stay here would make a cycle.
        del future, result, failure
        return True

    def _release_slot(self, future: Future[Any]) -> None:
        if not future.cancelled() or not self._is_mine():
            return
        with self._changed:
            # The thread that takes the call out of the queue counts it and notifies its waiters.
            if self._waiting.pop(future, None) is not None:
                self._cancelled += 1
                future.set_running_or_notify_cancel()


@dataclass(frozen=True, slots=True)
class _QueuedCall:
    name: str
    run: Callable[[], Any]

    def outcome(self) -> tuple[Any, BaseException | None]:
        try:
            return self.run(), None
        except BaseException as failure:  # noqa: BLE001 - the future carries it to the caller
            return None, failure


def work_name(fn: Callable[..., Any]) -> str:
    """The name of `fn` for reports and logs."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    named = fn if hasattr(fn, "__qualname__") else type(fn)
    return f"{named.__module__}.{named.__qualname__}"
