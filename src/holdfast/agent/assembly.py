"""`Assembly`: what a turn of one agent thinks and acts with.

The tools and the system text are put together when the first turn needs them. Both stay the same from then
on, so the beginning of every request does too and prompt caches hold. The model may be another each turn.
"""

from collections.abc import Iterable

from holdfast.agent.compaction import Compaction
from holdfast.agent.contract import AgentOptions, Pools
from holdfast.agent.hands import Hands
from holdfast.agent.prompt import Prompt
from holdfast.agent.recollection import Recollection
from holdfast.agent.summary import compressor_for
from holdfast.agent.transcript import Transcript
from holdfast.agent.turn import Mind
from holdfast.models.contract import Model
from holdfast.models.in_use import lent
from holdfast.tools.contract import Tool


class Assembly:
    """Asks memory for its share once; a provider that is slow is left out."""

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool],
        recollection: Recollection,
        compaction: Compaction,
        pools: Pools,
        options: AgentOptions,
    ) -> None:
        self._model = model
        self._tools = list(tools)
        self._recollection = recollection
        self._compaction = compaction
        self._default_compressor = compaction.compressor
        self._pools = pools
        self._options = options
        self._hands: Hands | None = None
        self._system: str | None = None

    async def assembled(self, transcript: Transcript) -> tuple[Mind, Hands]:
        """For the turn that begins now."""
        hands = await self.hands()
        mind = Mind(
            model=self._model_for_a_turn(),
            system=await self.system(),
            transcript=transcript,
            compaction=self._compaction,
            recollection=self._recollection,
            limits=self._options.limits,
            clock=self._options.clock,
        )
        return mind, hands

    def _model_for_a_turn(self) -> Model:
        """The model in use now; what hangs on its window and its gifts follows it."""
        model = lent(self._model)
        self._compaction.threshold = int(model.traits.context_window * self._options.compact_at)
        if self._compaction.compressor is self._default_compressor:
            self._default_compressor = compressor_for(self._options.summary_model or self._model)
            self._compaction.compressor = self._default_compressor
        return model

    async def hands(self) -> Hands:
        """The agent's own tools and those of its memory."""
        if self._hands is None:
            options = self._options
            taken = {tool.name for tool in self._tools}
            tools = [*self._tools, *await self._recollection.tools(taken)]
            self._hands = Hands(tools, self._pools.work, options.workspace, options.person_for, options.cut)
        return self._hands

    async def system(self) -> str:
        """Instructions, the project's files, skills, and what memory adds."""
        if self._system is None:
            options = self._options
            remembered = await self._recollection.system_block()
            prompt = Prompt(options.instructions, options.workspace, options.skills, remembered)
            self._system = await self._pools.system_texts.of(prompt)
        return self._system
