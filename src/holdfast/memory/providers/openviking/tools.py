"""The agent's tool on OpenViking: search."""

import json
from typing import Any, Protocol

from pydantic import Field, ValidationError

from holdfast.memory.providers.tool_calls import Arguments, mistakes


class Search(Arguments):
    """Search long-term memory for what earlier conversations left there."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")


SEARCH = "openviking_search"
TOOLS: dict[str, type[Arguments]] = {SEARCH: Search}


class Memory(Protocol):
    """What the tool works on."""

    def search(self, query: str, limit: int) -> list[str]: ...


def run_search(memory: Memory, args: dict[str, Any]) -> str:
    """Run the tool. What the model got wrong comes back as text that says so."""
    try:
        wanted = Search.model_validate(args)
    except ValidationError as cause:
        return json.dumps({"error": mistakes(cause)}, ensure_ascii=False)
    return json.dumps({"found": memory.search(wanted.query, wanted.limit)}, ensure_ascii=False)
