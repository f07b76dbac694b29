"""The agent's tool on OpenViking: search."""

import json
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Search(BaseModel):
    """Search long-term memory for what earlier conversations left there."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1, description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")


SEARCH = "openviking_search"


class Memory(Protocol):
    """What the tool works on."""

    def search(self, query: str, limit: int) -> list[str]: ...


def tool_schemas() -> list[dict[str, Any]]:
    """The tool as an OpenAI function schema."""
    return [
        {
            "type": "function",
            "function": {
                "name": SEARCH,
                "description": Search.__doc__,
                "parameters": Search.model_json_schema(),
            },
        }
    ]


def run_search(memory: Memory, args: dict[str, Any]) -> str:
    """Run the tool. What the model got wrong comes back as text that says so."""
    try:
        wanted = Search.model_validate(args)
    except ValidationError as cause:
        said = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in cause.errors())
        return json.dumps({"error": said}, ensure_ascii=False)
    return json.dumps({"found": memory.search(wanted.query, wanted.limit)}, ensure_ascii=False)
