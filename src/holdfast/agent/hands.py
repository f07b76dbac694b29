"""`Hands`: the tools of one agent, and the surroundings each call gets."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from holdfast.agent.batch import ToolBatch
from holdfast.agent.contract import PersonFor
from holdfast.agent.turn_store import TurnStore
from holdfast.core.contract import ToolCall
from holdfast.core.errors import ToolInvalid
from holdfast.core.events import Event
from holdfast.models.contract import ToolSchema
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import Tool, ToolContext


class Hands:
    """What an agent can do."""

    def __init__(
        self,
        tools: Iterable[Tool],
        pool: DaemonPool,
        workspace: Path,
        person_for: PersonFor,
        cut: Callable[[ToolCall, str], str],
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
        self._workspace = workspace
        self._person_for = person_for
        self._cut = cut

    def batch(self, calls: Sequence[ToolCall], store: TurnStore) -> ToolBatch:
        """The calls of one answer, ready to run."""

        def surroundings(call: ToolCall, emit: Callable[[Event], None]) -> ToolContext:
            return ToolContext(
                session_id=store.session_id,
                turn_id=store.turn_id,
                call_id=call["id"],
                workspace=self._workspace,
                person=self._person_for(store.session_id, store.turn_id, call["id"], emit),
                emit=emit,
                off_loop=partial(off_loop, self._pool),
            )

        return ToolBatch(calls, self._tools, surroundings, store.keep, self._cut)
