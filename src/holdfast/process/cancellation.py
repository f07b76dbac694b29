"""Helpers for a task that is cancelled: finish work that must not stop half-way, and tell who cancelled."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def finish_despite_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Await `work` to its end, even when this task is cancelled meanwhile; then raise the cancellation.

    When `work` fails, its failure is raised, whether or not this task was cancelled.
    """
    task = _UncancellableTask(work, loop=asyncio.get_running_loop())
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        task.result()
        raise


class _UncancellableTask(asyncio.Task[T]):
    """An event loop that closes cancels every task; for this one it waits instead."""

    def cancel(self, msg: Any | None = None) -> bool:  # noqa: ANN401, ARG002
        return False


def is_cancelled() -> bool:
    """Whether somebody cancelled the current task. If not, a CancelledError comes from the code it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
