"""`TurnContext`: what one turn works with, and `TurnContextBuilder`, which puts it together.

The tools and the system text are put together when the first turn needs them. Then both stay the same, so the
beginning of every request does too and prompt caches hold. Only a memory provider that was late is asked
again at the next turn, and the tools of MCP servers are taken anew when they have changed. The model may be
another each turn, and with it the tool profile.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from holdfast.agent.agent_memory import AgentMemory
from holdfast.agent.compaction import Compaction
from holdfast.agent.contract import AgentOptions, Limits, Pools
from holdfast.agent.prompt import Prompt
from holdfast.agent.result_form import ResultForm
from holdfast.agent.tool_profile import ToolProfile
from holdfast.agent.tool_set import ToolSet
from holdfast.agent.transcript import Transcript
from holdfast.agent.usage_meter import UsageMeter
from holdfast.core.contract import Clock
from holdfast.models.contract import Model, ToolSchema
from holdfast.models.switchable_model import borrow_for_turn
from holdfast.tools.contract import Tool
from holdfast.tools.skills import READ_SKILL


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
        self._live_tools: tuple[Tool, ...] = ()  # those that `_tools` was made with
        self._tools: ToolSet | None = None
        self._found: set[str] | None = None  # tools that the model found or used, whatever its profile
        self._system: str | None = None
        self._is_brief = False
        self._tools_are_late = False
        self._block_is_late = False

    def profile(self, wanted: str = "") -> ToolProfile:
        """Which tools the model in use is told of; `wanted` is the conversation's own choice."""
        return self._options.tool_profiles.of(self._model.traits, wanted)

    async def build(
        self, transcript: Transcript, form: ResultForm | None = None, wanted: str = ""
    ) -> TurnContext:
        """The context of the turn that begins now; `wanted` as for `profile`."""
        model, profile = self._model_for_a_turn(), self.profile(wanted)
        if form is None and self._options.result_type is not None:
            form = ResultForm(self._options.result_type)
        if form is not None:
            form.require_tools(model.traits)
        tools = await self.told_tools(transcript, profile, None if form is None else form.tool())
        return TurnContext(
            model=model,
            system=await self.system(profile),
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

    async def told_tools(
        self, transcript: Transcript, profile: ToolProfile, extra: Tool | None = None
    ) -> ToolSet:
        """The tools, of which the model is told as the profile says; those it has used before as well.

        `extra` is one more, of which it is told in any case.
        """
        if self._found is None:
            # Read once: what is found later is added here.
            self._found = {
                call["function"]["name"]
                for message in transcript.messages
                for call in message.get("tool_calls") or ()
            }
        tools = await self.tools()
        if extra is not None:
            tools = tools.plus(extra)
            self._found.add(extra.name)
        return tools.under(profile, self._found)

    async def tools(self) -> ToolSet:
        """The agent's own tools and those of its memory; asked for again while a provider is late."""
        live = tuple(self._options.live_tools())
        if self._tools is None or self._tools_are_late or live != self._live_tools:
            self._live_tools = live
            taken = {tool.name for tool in self._own_tools}
            own = [*self._own_tools, *(tool for tool in live if tool.name not in taken)]
            window, taken = self._model.traits.context_window, {tool.name for tool in own}
            offered, self._tools_are_late = await self._memory.tools(window, taken)
            allows = self._options.scope.policy.allows
            allowed = [tool for tool in (*own, *offered) if allows(tool.name)]
            self._tools = ToolSet(allowed, self._pools.work, self._options)
        return self._tools

    async def system(self, profile: ToolProfile) -> str:
        """Instructions, the project's files, skills, and what memory adds; as for the tools.

        A brief profile leaves out what explains tools that the model is not told of.
        """
        if self._system is None or self._block_is_late or self._is_brief != profile.brief:
            options, self._is_brief = self._options, profile.brief
            remembered = ""
            if not profile.brief:
                block = await self._memory.system_block(self._model.traits.context_window)
                self._block_is_late, remembered = block.is_late, block.text
            prompt = Prompt(
                options.instructions,
                options.workspace,
                options.skills if profile.shows(READ_SKILL) else "",
                remembered,
                options.own_files,
                options.system_prompt,
                brief=profile.brief,
            )
            self._system = await self._pools.system_texts.of(prompt)
        return self._system
