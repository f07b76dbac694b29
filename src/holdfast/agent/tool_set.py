"""`ToolSet`: the tools of one agent, what the model is told of them, and the context that each call gets."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from holdfast.agent.batch import ToolBatch
from holdfast.agent.contract import AgentOptions
from holdfast.agent.find_tool import find_tool
from holdfast.agent.tool_hooks import ToolHooks
from holdfast.agent.tool_profile import ToolProfile
from holdfast.agent.turn_limits import RepeatGuard
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import Message, ToolCall
from holdfast.core.errors import ToolInvalid
from holdfast.core.events import Emit
from holdfast.models.contract import ToolSchema
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.own_policy import behind


class ToolSet:
    """The tools of one agent, by name."""

    def __init__(
        self,
        tools: Iterable[Tool],
        pool: DaemonPool,
        options: AgentOptions,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ToolInvalid(tool.name, "there are two tools of that name")
            self._tools[tool.name] = tool
        self.schemas = tuple(
            ToolSchema(tool.name, tool.description, tool.parameters) for tool in self._tools.values()
        )
        """The tools as the model is told of them; under a profile, more of them once it found more."""
        self._pool = pool
        self._options = options
        self._hooks = ToolHooks(options.before_tool, options.after_tool)

    def plus(self, tool: Tool) -> "ToolSet":
        """These tools and one more, of which the model is told too."""
        more = ToolSet([*self._tools.values(), tool], self._pool, self._options)
        more.schemas = (*self.schemas, more.schemas[-1])
        return more

    def under(self, profile: ToolProfile, found: set[str]) -> "ToolSet":
        """The same tools, of which the model is told those of the profile and those it has `found`.

        Where some are left out, it has `find_tool` too, which adds to `found`.
        """
        hidden = [each for each in self.schemas if not profile.shows(each.name)]
        if not hidden and not profile.brief:
            return self
        told = self

        def tell() -> None:
            told.schemas = tuple(
                profile.described(each) for each in every if each not in hidden or each.name in found
            )

        def reveal(names: Iterable[str]) -> None:
            found.update(names)
            tell()

        if hidden:
            told = self.plus(find_tool(hidden, reveal, profile.described))
        else:
            told = ToolSet(self._tools.values(), self._pool, self._options)
        every = told.schemas
        tell()
        return told

    def without(self, is_dropped: Callable[[str], bool]) -> "ToolSet":
        """These tools but for those whose name is to be dropped."""
        kept = [tool for name, tool in self._tools.items() if not is_dropped(name)]
        fewer = ToolSet(kept, self._pool, self._options)
        fewer.schemas = tuple(each for each in self.schemas if not is_dropped(each.name))
        return fewer

    def changes(self, name: str) -> bool:
        """Whether a call of this tool may change things; one that is not here may."""
        return name not in self._tools or self._tools[name].changes

    def batch(
        self, calls: Sequence[ToolCall], store: TurnStore, emit: Emit, repeats: RepeatGuard
    ) -> ToolBatch:
        """The calls of one answer, ready to run; what repeats an earlier one is stored with a note."""
        asked = {call["id"]: call for call in calls}

        async def keep(result: Message) -> None:
            await store.keep(repeats.with_note(asked[result["tool_call_id"]], result))

        def context(call: ToolCall, emit: Emit) -> ToolContext:
            return ToolContext(
                session_id=store.session_id,
                turn_id=store.turn_id,
                call_id=call["id"],
                workspace=self._options.workspace,
                person=behind(
                    self._options.approve,
                    self._options.person_for(store.session_id, store.turn_id, call["id"], emit),
                ),
                emit=emit,
                off_loop=partial(off_loop, self._pool),
                own_files=self._options.own_files,
                trusted_workspace=self._options.trusted_workspace,
                scope=self._options.scope.name,
                caller_turn=self._options.caller_turn,
            )

        return ToolBatch(calls, self._tools, context, keep, emit, self._hooks)
