"""The agent's list of what is to be done. Kept in memory for one agent; every result carries the whole list.

So the list is also in the transcript, where it survives a restart.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from holdfast.tools.contract import Tool
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

    def tool(self) -> Tool:
        return tool(name="todo", changes=False)(self._write)

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
