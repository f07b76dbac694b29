"""The agent's tools on Hindsight: recall, reflect, retain."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from holdfast.providers.tool_arguments import ToolArguments

if TYPE_CHECKING:
    from holdfast.providers.hindsight.provider import HindsightMemory

MAX_NOTE_LENGTH = 8000
Budget = Literal["low", "mid", "high"]


class HindsightRecallArguments(ToolArguments):
    """Search long-term memory for facts from earlier conversations."""

    query: str = Field(min_length=1, description="what to look for, in plain words")
    budget: Budget | None = Field(default=None, description="how hard to look")
    tokens: int = Field(default=2000, ge=100, le=20_000, description="how much to return at most")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")

    def run(self, memory: "HindsightMemory") -> dict[str, Any]:
        found = memory.recall(self.query, budget=self.budget, tokens=self.tokens, tags=self.tags)
        return {"found": found}


class HindsightReflectArguments(ToolArguments):
    """Ask long-term memory for a reasoned answer over everything it holds; slower than recall."""

    query: str = Field(min_length=1, description="the question")
    budget: Budget | None = Field(default=None, description="how hard to think")
    tags: list[str] = Field(default_factory=list, description="only what has one of these tags")

    def run(self, memory: "HindsightMemory") -> dict[str, Any]:
        return {"answer": memory.reflect(self.query, budget=self.budget, tags=self.tags)}


class HindsightRetainArguments(ToolArguments):
    """Keep a fact in long-term memory. The conversation itself is kept by itself."""

    content: str = Field(min_length=1, max_length=MAX_NOTE_LENGTH, description="understandable by itself")
    tags: list[str] = Field(default_factory=list, description="tags to find it by")

    def run(self, memory: "HindsightMemory") -> dict[str, Any]:
        memory.retain(self.content, self.tags)
        return {"retained": True}


TOOLS: dict[str, type[ToolArguments]] = {
    "hindsight_recall": HindsightRecallArguments,
    "hindsight_reflect": HindsightReflectArguments,
    "hindsight_retain": HindsightRetainArguments,
}
