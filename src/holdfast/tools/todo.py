"""The agent's todo list. It is kept in memory for one agent, and every result has the whole list.

So the list is also in the transcript, where it survives a restart.
"""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool

SIGNS = {"pending": "[ ]", "in_progress": "[>]", "done": "[x]"}


class TodoItem(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str = Field(min_length=1, max_length=500)
    state: Literal["pending", "in_progress", "done"] = "pending"


class TodoList:
    """One agent's list."""

    def __init__(self) -> None:
        self._items: tuple[TodoItem, ...] = ()

    def tool(self, like: Tool | None = None) -> Tool:
        """The list as a tool; `like` is the tool of another list, whose schema is reused."""
        if like is None:
            return tool(name="todo", changes=False)(self._write)

        async def run(_: ToolContext, arguments: dict[str, Any]) -> ToolResult:
            return ToolResult(await self._write(**arguments))

        return replace(like, run=run)

    def shown(self) -> str:
        return "\n".join(f"{SIGNS[item.state]} {' '.join(item.text.split())}" for item in self._items)

    async def _write(self, items: Annotated[list[TodoItem] | None, Field(max_length=100)] = None) -> str:
        """Keep a list of what is to be done in a task of several steps. Gives the list as it is now.

        Args:
            items: the whole new list; leave it out to see the present one

        """
        if items is not None:
            self._items = tuple(items)
        return self.shown() or "the list is empty"
