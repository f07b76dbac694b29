"""The agent's tools on Hindsight: recall, reflect, retain."""

import json
from typing import Any, Literal, Protocol

from pydantic import Field, ValidationError

from holdfast.memory.providers.tool_calls import Arguments, mistakes

LONGEST_NOTE = 8000
Budget = Literal["low", "mid", "high"]


class Recall(Arguments):
    """Search long-term memory for facts from earlier conversations."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    budget: Budget | None = Field(default=None, description="how hard to look")
    tokens: int = Field(default=2000, ge=100, le=20_000, description="how much to return at most")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")


class Reflect(Arguments):
    """Ask long-term memory for a reasoned answer over everything it holds; slower than recall."""

    query: str = Field(min_length=1, description="the question")
    budget: Budget | None = Field(default=None, description="how hard to think")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")


class Retain(Arguments):
    """Keep a fact in long-term memory. The conversation itself is kept by itself."""

    content: str = Field(min_length=1, max_length=LONGEST_NOTE, description="understandable by itself")
    tags: list[str] = Field(default_factory=list, description="tags to find it by")


TOOLS: dict[str, type[Arguments]] = {
    "hindsight_recall": Recall,
    "hindsight_reflect": Reflect,
    "hindsight_retain": Retain,
}


class Memory(Protocol):
    """What the tools work on."""

    def recall(self, query: str, *, budget: str | None, tokens: int, tags: list[str]) -> list[str]: ...
    def reflect(self, query: str, *, budget: str | None, tags: list[str]) -> str: ...
    def retain(self, content: str, tags: list[str]) -> None: ...


def run_tool(memory: Memory, name: str, args: dict[str, Any]) -> str:
    """Run one tool. What the model got wrong comes back as text that says so."""
    answer: dict[str, Any]
    try:
        match TOOLS[name].model_validate(args):
            case Recall(query=query, budget=budget, tokens=tokens, tags=tags):
                answer = {"found": memory.recall(query, budget=budget, tokens=tokens, tags=tags)}
            case Reflect(query=query, budget=budget, tags=tags):
                answer = {"answer": memory.reflect(query, budget=budget, tags=tags)}
            case Retain(content=content, tags=tags):
                memory.retain(content, tags)
                answer = {"retained": True}
            case _:
                answer = {"error": f"there is no tool {name}"}
    except ValidationError as cause:
        answer = {"error": mistakes(cause)}
    return json.dumps(answer, ensure_ascii=False)
