"""Runs blocking code from the event loop: `await off_loop(pool, fn, ...)`.

asyncio's default executor is not used, because the interpreter joins its threads. Read `daemon_pool.py`
first.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from holdfast.core.errors import PoolClosed
from holdfast.process.contract import WorkCancelled
from holdfast.process.daemon_pool import DaemonPool, work_name

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(pool: DaemonPool, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn` on `pool` and return its result, or raise its exception.

    Cancellation takes effect at once: work that has not begun never begins. Work that has begun continues on
    its daemon thread, and its later exception is logged. Raises `PoolSaturated` when the pool is full, and
    `PoolClosed` when the pool closes before the work begins.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    work = pool.submit(fn, *args, **kwargs)
    work.add_done_callback(functools.partial(_wake, loop, ended))
    try:
        await ended
    except BaseException:  # cancelled, or the loop has ended and this coroutine is discarded
        if not work.cancel():
            work.add_done_callback(functools.partial(_log_failure, work_name(fn)))
        raise
    try:
        if work.cancelled():
            raise PoolClosed(pool.name)
        if isinstance(work.exception(), asyncio.CancelledError):
            raise WorkCancelled(work_name(fn)) from work.exception()
        return work.result()
    finally:
        del work  # the traceback of a failure refers to this frame; this avoids a reference cycle


async def all_done(futures: Iterable[Future[Any]], seconds: float) -> bool:
    """Wait on the loop, without a thread, until all futures are done; False when the time runs out.

    Late work is not cancelled.
    """
    loop = asyncio.get_running_loop()
    ends = []
    for each in futures:
        if not each.done():
            ends.append(loop.create_future())
            each.add_done_callback(functools.partial(_wake, loop, ends[-1]))
    return not ends or not (await asyncio.wait(ends, timeout=seconds))[1]


def _wake(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]", _: Future[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody awaits any more
        loop.call_soon_threadsafe(_set, ended)


def _set(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


def _log_failure(name: str, work: Future[Any]) -> None:
    if not work.cancelled() and (failure := work.exception()) is not None:
        logger.error("off_loop.abandoned_work_failed", extra={"work": name}, exc_info=failure)
