"""`TurnContext`: what one turn works with, and `TurnContextBuilder`, which puts it together.

The tools and the system text are put together when the first turn needs them. Then both stay the same, so the
beginning of every request does too and prompt caches hold. Only a memory provider that was late is asked
again at the next turn, and the tools of MCP servers are taken anew when they have changed. The model may be
another each turn, and with it the tool profile. What a turn's message asks for beside its words
(`client_request.py`) is known when the turn is opened: `follow` changes the context to that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.agent.agent_memory import AgentMemory
from holdfast.agent.client_request import PLAIN, ClientRequest
from holdfast.agent.compaction import Compaction
from holdfast.agent.context_use import ContextUse, weighed
from holdfast.agent.contract import AgentOptions, Limits, Pools
from holdfast.agent.prompt import Prompt
from holdfast.agent.result_form import ResultForm
from holdfast.agent.system_text import combined
from holdfast.agent.tool_profile import ToolProfile
from holdfast.agent.tool_set import ToolSet
from holdfast.agent.transcript import Transcript
from holdfast.agent.usage_meter import UsageMeter
from holdfast.core.contract import Clock, ToolCall
from holdfast.core.errors import InvalidInput
from holdfast.models.contract import Model, ToolSchema
from holdfast.models.switchable_model import borrow_for_turn
from holdfast.tools.contract import Tool
from holdfast.tools.skills import READ_SKILL

NO_TOOLS = "{} calls no tools, so it can't be given the client's. Leave out `tools`, or use another model."


@dataclass(slots=True)
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
    refusal: str = ""
    """Why the turn asks no model at all, in words; empty: it does."""
    client: ClientRequest = PLAIN
    """What the turn's message asks for."""
    memory_tools: frozenset[str] = frozenset()
    system_without_memory: str = ""

    @property
    def schemas(self) -> Sequence[ToolSchema]:
        """The tools as the model is told of them; none when it calls no tools."""
        return (*self.tools.schemas, *self.client.tools) if self.model.traits.calls_tools else ()

    def follow(self, client: ClientRequest) -> None:
        """Do this turn as its client asks."""
        if client == PLAIN:
            return
        self.client, traits = client, self.model.traits
        if client.tools and not traits.calls_tools:
            raise InvalidInput(NO_TOOLS.format(traits.name))
        if not client.memory:
            self.memory, self.system = self.memory.left_out(), self.system_without_memory
        if not client.own_tools:
            self.system = ""
        self.tools = self.tools.without(self._is_left_out)
        if client.schema is not None:
            self.form = ResultForm(client.schema, by_tool=not traits.takes_formats)
            if self.form.by_tool:
                self.form.require_tools(traits)
                self.tools = self.tools.plus(self.form.tool())

    def _is_left_out(self, name: str) -> bool:
        client = self.client
        return (
            not client.own_tools or name in client.names or (name in self.memory_tools and not client.memory)
        )

    def model_options(self, *, first: bool) -> dict[str, Any]:
        """What the model is asked beside the conversation; which tool to call only in the `first` step."""
        options = dict(self.client.options)
        if not self.schemas:
            options.pop("parallel_tool_calls", None)
        if not first or not self.schemas:
            options.pop("tool_choice", None)
        if self.form is None or self.form.by_tool:
            options.pop("response_format", None)
        return options

    def client_calls(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Of these calls those that the client runs."""
        theirs = [call for call in calls if call["function"]["name"] in self.client.names]
        return theirs[:1] if self.client.one_call else theirs


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
        self._systems: tuple[str, str] | None = None  # with what memory adds, and without
        self._is_brief = False
        self._memory_tools: frozenset[str] = frozenset()
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
            memory_tools=self._memory_tools,
            system_without_memory=(await self._both_systems(profile))[1],
        )

    async def use(self, transcript: Transcript, wanted: str, recalled: str) -> ContextUse:
        """How much of the window a turn that began now would use, with what was `recalled` for it."""
        traits, profile = self._model.traits, self.profile(wanted)
        tools = await self.told_tools(transcript, profile)
        system = combined(await self.system(profile), transcript.system)
        schemas = tools.schemas if traits.calls_tools else ()
        parts = weighed(system, schemas, transcript.messages, recalled)
        counted = transcript.counted_tokens
        return ContextUse(traits.context_window, counted or sum(each.tokens for each in parts), parts)

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
            self._memory_tools = frozenset(tool.name for tool in offered)
            allows = self._options.scope.policy.allows
            allowed = [tool for tool in (*own, *offered) if allows(tool.name)]
            self._tools = ToolSet(allowed, self._pools.work, self._options)
        return self._tools

    async def system(self, profile: ToolProfile) -> str:
        """Instructions, the project's files, skills, and what memory adds; as for the tools.

        A brief profile leaves out what explains tools that the model is not told of.
        """
        return (await self._both_systems(profile))[0]

    async def _both_systems(self, profile: ToolProfile) -> tuple[str, str]:
        """With what memory adds, and without."""
        if self._systems is None or self._block_is_late or self._is_brief != profile.brief:
            self._is_brief, remembered = profile.brief, ""
            if not profile.brief:
                block = await self._memory.system_block(self._model.traits.context_window)
                self._block_is_late, remembered = block.is_late, block.text
            whole = await self._system_text(remembered, profile)
            self._systems = whole, await self._system_text("", profile) if remembered else whole
        return self._systems

    async def _system_text(self, remembered: str, profile: ToolProfile) -> str:
        options = self._options
        prompt = Prompt(
            options.instructions,
            options.workspace,
            options.skills if profile.shows(READ_SKILL) else "",
            remembered,
            options.own_files,
            options.system_prompt,
            brief=profile.brief,
        )
        return await self._pools.system_texts.of(prompt)
