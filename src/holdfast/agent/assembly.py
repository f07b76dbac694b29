"""`Assembly`: the tools and the system text of one agent, put together when its first turn needs them.

Both stay the same from then on, so the beginning of every request does too and prompt caches hold.
"""

from collections.abc import Iterable

from holdfast.agent.contract import AgentOptions
from holdfast.agent.hands import Hands
from holdfast.agent.prompt import Prompt
from holdfast.agent.recollection import Recollection
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import Tool


class Assembly:
    """Asks memory for its share once; a provider that is slow is left out."""

    def __init__(
        self, tools: Iterable[Tool], recollection: Recollection, pool: DaemonPool, options: AgentOptions
    ) -> None:
        self._tools = list(tools)
        self._recollection = recollection
        self._pool = pool
        self._options = options
        self._hands: Hands | None = None
        self._system: str | None = None

    async def hands(self) -> Hands:
        """The agent's own tools and those of its memory."""
        if self._hands is None:
            options = self._options
            taken = {tool.name for tool in self._tools}
            tools = [*self._tools, *await self._recollection.tools(taken)]
            self._hands = Hands(tools, self._pool, options.workspace, options.person_for, options.cut)
        return self._hands

    async def system(self) -> str:
        """Instructions, the project's files, skills, and what memory adds."""
        if self._system is None:
            options = self._options
            remembered = await self._recollection.system_block()
            prompt = Prompt(options.instructions, options.workspace, options.skills, remembered)
            self._system = await off_loop(self._pool, prompt.system)
        return self._system
