"""The agent's tools on Hindsight: recall, reflect, retain."""

import json
from typing import Any, Literal, Protocol

from pydantic import Field, ValidationError

from holdfast.providers.tool_arguments import ToolArguments, validation_message

MAX_NOTE_LENGTH = 8000
Budget = Literal["low", "mid", "high"]


class HindsightRecallArguments(ToolArguments):
    """Search long-term memory for facts from earlier conversations."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    budget: Budget | None = Field(default=None, description="how hard to look")
    tokens: int = Field(default=2000, ge=100, le=20_000, description="how much to return at most")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")


class HindsightReflectArguments(ToolArguments):
    """Ask long-term memory for a reasoned answer over everything it holds; slower than recall."""

    query: str = Field(min_length=1, description="the question")
    budget: Budget | None = Field(default=None, description="how hard to think")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")


class HindsightRetainArguments(ToolArguments):
    """Keep a fact in long-term memory. The conversation itself is kept by itself."""

    content: str = Field(min_length=1, max_length=MAX_NOTE_LENGTH, description="understandable by itself")
    tags: list[str] = Field(default_factory=list, description="tags to find it by")


TOOLS: dict[str, type[ToolArguments]] = {
    "hindsight_recall": HindsightRecallArguments,
    "hindsight_reflect": HindsightReflectArguments,
    "hindsight_retain": HindsightRetainArguments,
}


class SupportsHindsightTools(Protocol):
    """The methods that the tools call."""

    def recall(self, query: str, *, budget: str | None, tokens: int, tags: list[str]) -> list[str]: ...
    def reflect(self, query: str, *, budget: str | None, tags: list[str]) -> str: ...
    def retain(self, content: str, tags: list[str]) -> None: ...


def run_tool(memory: SupportsHindsightTools, name: str, args: dict[str, Any]) -> str:
    """Run one tool. Invalid arguments are returned as an error text for the model."""
    answer: dict[str, Any]
    try:
        match TOOLS[name].model_validate(args):
            case HindsightRecallArguments(query=query, budget=budget, tokens=tokens, tags=tags):
                answer = {"found": memory.recall(query, budget=budget, tokens=tokens, tags=tags)}
            case HindsightReflectArguments(query=query, budget=budget, tags=tags):
                answer = {"answer": memory.reflect(query, budget=budget, tags=tags)}
            case HindsightRetainArguments(content=content, tags=tags):
                memory.retain(content, tags)
                answer = {"retained": True}
            case _:
                answer = {"error": f"there is no tool {name}"}
    except ValidationError as cause:
        answer = {"error": validation_message(cause)}
    return json.dumps(answer, ensure_ascii=False)
