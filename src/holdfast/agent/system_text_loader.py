"""`SystemTextLoader`: agents that need the same system text at once share one reading of the files."""

import asyncio

from holdfast.agent.prompt import Prompt
from holdfast.process import DaemonPool, off_loop


class SystemTextLoader:
    """One for all agents that share threads. Nothing is kept once it is read."""

    def __init__(self, pool: DaemonPool) -> None:
        self._pool = pool
        self._coming: dict[tuple[asyncio.AbstractEventLoop, Prompt], asyncio.Task[str]] = {}

    async def of(self, prompt: Prompt) -> str:
        """The system text, read from now on or being read already."""
        wanted = asyncio.get_running_loop(), prompt
        coming = self._coming.get(wanted)
        if coming is None:
            coming = self._coming[wanted] = asyncio.create_task(off_loop(self._pool, prompt.system))
            coming.add_done_callback(lambda _: self._coming.pop(wanted, None))
        # A reader that is cancelled does not cancel the others.
        return await asyncio.shield(coming)
