"""Work that outlives its request: a refusal reaches the client, the session's events show the rest."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from holdfast.process import BackgroundTasks
from holdfast.process.background_tasks import log_failure

REFUSED_WITHIN = 2.5
"""Seconds to wait for a refusal: a little longer than the host waits for another process."""


async def start_or_refuse(tasks: BackgroundTasks, work: Coroutine[Any, Any, Any]) -> None:
    """Start the work and raise its early errors; later errors are logged."""
    task = tasks.keep(work)
    done, _ = await asyncio.wait([task], timeout=REFUSED_WITHIN)
    if done:
        task.result()
    else:
        task.add_done_callback(log_failure)
