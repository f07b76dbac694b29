"""Where callers wait for the writer: units of work in order, taken out a group at a time.

A thread blocks until its own work is done, a coroutine awaits it, so the queue is bounded by their number.
Only a store in memory also posts work that nobody waits for; a group of it wakes the writer by itself.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

from holdfast.sessions.contract import Transaction

logger = logging.getLogger(__name__)

LARGEST_GROUP = 256
LINGER_SECONDS = 0.0005


class Work:
    """One caller's unit of work and, once `done` opens, its outcome."""

    __slots__ = ("done", "error", "posted", "result", "run")

    def __init__(self, run: Callable[[Transaction], Any], *, posted: bool = False) -> None:
        self.run = run
        # Whether no thread waits for the outcome.
        self.posted = posted
        self.result: Any = None
        self.error: BaseException | None = None
        # A bare lock is the cheapest gate between two threads.
        self.done = threading.Lock()
        self.done.acquire()


class AwaitedWork(Work):
    """Work whose outcome an event loop awaits."""

    __slots__ = ("outcome",)

    def __init__(self, run: Callable[[Transaction], Any]) -> None:
        super().__init__(run, posted=True)
        self.outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def deliver(self) -> None:
        """On the loop: hand the outcome over."""
        if not self.outcome.done():
            if self.error is None:
                self.outcome.set_result(self.result)
            else:
                self.outcome.set_exception(self.error)
        elif self.error is not None:
            logger.error("store.abandoned_operation_failed", exc_info=self.error)


def answer(group: Iterable[Work]) -> None:
    """Give every caller its outcome; a loop is woken once for all that it awaits."""
    awaited: dict[asyncio.AbstractEventLoop, list[AwaitedWork]] = {}
    for work in group:
        if isinstance(work, AwaitedWork):
            awaited.setdefault(work.outcome.get_loop(), []).append(work)
        elif work.posted and work.error is not None:
            logger.error("store.posted_work_failed", exc_info=work.error)
        work.done.release()
    for loop, its in awaited.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody awaits any more
            loop.call_soon_threadsafe(_deliver, its)


def _deliver(awaited: list[AwaitedWork]) -> None:
    for each in awaited:
        each.deliver()


class WorkQueue:
    """Many threads put, the one writer takes. It is woken once for a group, not once for each."""

    def __init__(self) -> None:
        self._gate = threading.Lock()  # guards _waiting, _closed, _asleep and _expected
        self._waiting: list[Work] = []
        self._closed = False
        self._asleep = False
        self._expected = 1
        self._wake = threading.Lock()
        self._wake.acquire()
        self._last_size = 0

    def put(self, work: Work, *, rouse: bool = True) -> bool:
        """Add work at the end; False when the queue is closed.

        Without `rouse` it waits for company: whoever comes next, or a group's worth, wakes the writer.
        """
        with self._gate:
            if self._closed:
                return False
            self._waiting.append(work)
            if self._asleep and len(self._waiting) >= (self._expected if rouse else LARGEST_GROUP):
                self._rouse()
            return True

    def take(self, timeout: float | None) -> list[Work] | None:
        """What waits by now, oldest first; empty when the time ran out, None when all is done.

        After a group of several, their callers are about to come back. They are waited for, briefly, so
        that they share a commit again.
        """
        if self._last_size > 1:
            self._sleep(self._last_size + len(self._waiting), LINGER_SECONDS)
        self._sleep(1, timeout)
        with self._gate:
            group, self._waiting = self._waiting[:LARGEST_GROUP], self._waiting[LARGEST_GROUP:]
            self._last_size = len(group)
            return None if self._closed and not group else group

    def close(self) -> None:
        """Take no more; what waits can still be taken."""
        with self._gate:
            self._closed = True
            if self._asleep:
                self._rouse()

    def _sleep(self, expected: int, timeout: float | None) -> None:
        """Wait until that much work is there, the queue is closed, or the time is over."""
        with self._gate:
            if self._closed or len(self._waiting) >= expected:
                return
            self._asleep, self._expected = True, expected
        if not self._wake.acquire(timeout=-1 if timeout is None else timeout):
            with self._gate:
                if self._asleep:
                    self._asleep = False
                    return
            # Roused in the very moment the time ran out: take the wake-up, or the next sleep would.
            self._wake.acquire()

    def _rouse(self) -> None:
        self._asleep = False
        self._wake.release()
