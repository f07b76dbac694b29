"""The agent's tool on OpenViking: search."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from holdfast.providers.tool_arguments import ToolArguments

if TYPE_CHECKING:
    from holdfast.providers.openviking.provider import OpenVikingMemory


class OpenVikingSearchArguments(ToolArguments):
    """Search long-term memory for what earlier conversations left there."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")

    def run(self, memory: "OpenVikingMemory") -> dict[str, Any]:
        return {"found": memory.search(self.query, self.limit)}
