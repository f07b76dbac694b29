"""`ToolSet`: the tools of one agent, and the context that each call gets."""

from collections.abc import Iterable, Sequence
from functools import partial

from holdfast.agent.batch import ToolBatch
from holdfast.agent.contract import AgentOptions
from holdfast.agent.tool_hooks import ToolHooks
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import ToolCall
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
        self._pool = pool
        self._options = options
        self._hooks = ToolHooks(options.before_tool, options.after_tool)

    def plus(self, tool: Tool) -> "ToolSet":
        """These tools and one more."""
        return ToolSet([*self._tools.values(), tool], self._pool, self._options)

    def changes(self, name: str) -> bool:
        """Whether a call of this tool may change things; one that is not here may."""
        return name not in self._tools or self._tools[name].changes

    def batch(self, calls: Sequence[ToolCall], store: TurnStore, emit: Emit) -> ToolBatch:
        """The calls of one answer, ready to run."""

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

        return ToolBatch(calls, self._tools, context, store.keep, emit, self._hooks)
