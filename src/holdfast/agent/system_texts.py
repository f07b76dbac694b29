"""`SystemTexts`: those who need the same system text at once wait for one reading of the project's files."""

import asyncio

from holdfast.agent.prompt import Prompt
from holdfast.process import DaemonPool, off_loop


class SystemTexts:
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
        # Who stops waiting stops nobody else.
        return await asyncio.shield(coming)
