"""The agent's tool on OpenViking: search."""

import json
from typing import Any, Protocol

from pydantic import Field, ValidationError

from holdfast.providers.tool_arguments import ToolArguments, validation_message


class OpenVikingSearchArguments(ToolArguments):
    """Search long-term memory for what earlier conversations left there."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")


SEARCH = "openviking_search"
TOOLS: dict[str, type[ToolArguments]] = {SEARCH: OpenVikingSearchArguments}


class SupportsSearch(Protocol):
    """The method that the tool calls."""

    def search(self, query: str, limit: int) -> list[str]: ...


def run_search(memory: SupportsSearch, args: dict[str, Any]) -> str:
    """Run the tool. Invalid arguments are returned as an error text for the model."""
    try:
        wanted = OpenVikingSearchArguments.model_validate(args)
    except ValidationError as cause:
        return json.dumps({"error": validation_message(cause)}, ensure_ascii=False)
    return json.dumps({"found": memory.search(wanted.query, wanted.limit)}, ensure_ascii=False)
