"""Owns the way from the event loop to blocking code: `await off_loop(pool, fn, ...)`.

asyncio's default executor is not used: the interpreter joins its threads. Read `daemon_pool.py`
first.
"""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from holdfast.core.errors import PoolClosed
from holdfast.process.contract import WorkCancelled
from holdfast.process.daemon_pool import DaemonPool, work_name

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


async def off_loop(pool: DaemonPool, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `fn` on `pool` and give its result, or raise what it raised.

    Cancellation takes effect at once: work that has not begun never begins; work that runs is left
    to end on its daemon thread, and what it raises then is logged. Raises `PoolSaturated` when the
    pool is full, and `PoolClosed` when it closes before the work begins.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    work = pool.submit(fn, *args, **kwargs)
    work.add_done_callback(functools.partial(_wake, loop, ended))
    try:
        await ended
    except BaseException:  # cancelled, or the loop is gone and this coroutine is discarded
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
        del work  # a failure's traceback refers to this frame: no reference cycle


def _wake(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]", _: Future[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody awaits any more
        loop.call_soon_threadsafe(_set, ended)


def _set(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)


def _log_failure(name: str, work: Future[Any]) -> None:
    if not work.cancelled() and (failure := work.exception()) is not None:
        logger.error("off_loop.abandoned_work_failed", extra={"work": name}, exc_info=failure)
