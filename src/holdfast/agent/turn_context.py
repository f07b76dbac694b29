"""`TurnContext`: what one turn works with, and `TurnContextBuilder`, which puts it together.

The tools and the system text are put together when the first turn needs them. Then both stay the same, so the
beginning of every request does too and prompt caches hold. Only a memory provider that was late is asked
again at the next turn. The model may be another each turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.agent.agent_memory import AgentMemory
from holdfast.agent.compaction import Compaction
from holdfast.agent.contract import AgentOptions, Limits, Pools
from holdfast.agent.prompt import Prompt
from holdfast.agent.result_form import ResultForm
from holdfast.agent.tool_set import ToolSet
from holdfast.agent.transcript import Transcript
from holdfast.agent.usage_meter import UsageMeter
from holdfast.core.contract import Clock
from holdfast.models.contract import Model, ToolSchema
from holdfast.models.switchable_model import borrow_for_turn
from holdfast.tools.contract import Tool


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What one turn works with. The model is the same for the whole turn."""

    model: Model
    system: str
    tools: ToolSet
    transcript: Transcript
    compaction: Compaction
    memory: AgentMemory
    limits: Limits
    clock: Clock
    form: ResultForm | None = None
    """The form that the answer must have; None: any text."""
    meter: UsageMeter = field(default_factory=UsageMeter)
    """What the agent's requests use, until the end of a turn stores it."""
    caller_turn: str = ""
    """Of a subagent: the turn that it works for."""
    tokens_left: int | None = None
    """What was left of the scope's tokens for one day when the turn began; None: no limit."""

    @property
    def schemas(self) -> Sequence[ToolSchema]:
        """The tools as the model is told of them; none when it calls no tools."""
        return self.tools.schemas if self.model.traits.calls_tools else ()


class TurnContextBuilder:
    """Makes the context of each turn. A late provider is left out, and asked again at the next turn."""

    def __init__(
        self,
        model: Model,
        tools: Iterable[Tool],
        memory: AgentMemory,
        compaction: Compaction,
        pools: Pools,
        options: AgentOptions,
    ) -> None:
        self._model = model
        self._own_tools = list(tools)
        self._memory = memory
        self._compaction = compaction
        self._pools = pools
        self._options = options
        self._tools: ToolSet | None = None
        self._system: str | None = None
        self._tools_are_late = False
        self._block_is_late = False

    async def build(self, transcript: Transcript, form: ResultForm | None = None) -> TurnContext:
        """The context of the turn that begins now."""
        tools, model = await self.tools(), self._model_for_a_turn()
        if form is None and self._options.result_type is not None:
            form = ResultForm(self._options.result_type)
        if form is not None:
            form.require_tools(model.traits)
            tools = tools.plus(form.tool())
        return TurnContext(
            model=model,
            system=await self.system(),
            tools=tools,
            transcript=transcript,
            compaction=self._compaction,
            memory=self._memory,
            limits=self._options.limits,
            clock=self._options.clock,
            form=form,
            caller_turn=self._options.caller_turn,
        )

    def _model_for_a_turn(self) -> Model:
        """The model in use now; the size at which the conversation is compacted follows its window."""
        model = borrow_for_turn(self._model)
        self._compaction.threshold = int(model.traits.context_window * self._options.compact_at)
        return model

    async def tools(self) -> ToolSet:
        """The agent's own tools and those of its memory; asked for again while a provider is late."""
        if self._tools is None or self._tools_are_late:
            window, taken = self._model.traits.context_window, {tool.name for tool in self._own_tools}
            offered, self._tools_are_late = await self._memory.tools(window, taken)
            allows = self._options.scope.policy.allows
            allowed = [tool for tool in (*self._own_tools, *offered) if allows(tool.name)]
            self._tools = ToolSet(allowed, self._pools.work, self._options)
        return self._tools

    async def system(self) -> str:
        """Instructions, the project's files, skills, and what memory adds; as for the tools."""
        if self._system is None or self._block_is_late:
            options = self._options
            remembered = await self._memory.system_block(self._model.traits.context_window)
            self._block_is_late = remembered.is_late
            prompt = Prompt(
                options.instructions,
                options.workspace,
                options.skills,
                remembered.text,
                options.own_files,
                options.system_prompt,
            )
            self._system = await self._pools.system_texts.of(prompt)
        return self._system
