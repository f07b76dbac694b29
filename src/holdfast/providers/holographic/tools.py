"""The agent's tools: `fact_store`, which keeps and finds facts, and `fact_feedback`, which rates them."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from holdfast.core.errors import InvalidInput
from holdfast.providers.holographic.facts import (
    MAX_FACT_LENGTH,
    MAX_TAGS_LENGTH,
    MIN_TRUST,
    Category,
    Fact,
)
from holdfast.providers.tool_arguments import ToolArguments

if TYPE_CHECKING:
    from holdfast.providers.holographic.provider import HolographicMemory

MAX_LIMIT = 50


class FactStoreArguments(ToolArguments):
    """Long-term facts about people, projects and things.

    add keeps a fact and says which known facts it contradicts; search finds facts by words; probe gives the
    facts about one entity; related gives what is connected with it; reason gives the facts that are about
    several entities at once; contradict lists facts that can't both be true; update changes a fact; remove
    forgets one for good; list shows the most trusted. A name without facts is reported as unknown.
    """

    action: Literal["add", "search", "probe", "related", "reason", "contradict", "update", "remove", "list"]
    content: str | None = Field(
        default=None, max_length=MAX_FACT_LENGTH, description="add, update: one statement, clear by itself"
    )
    query: str | None = Field(default=None, description="search: what to look for, in plain words")
    entity: str | None = Field(default=None, description="probe, related, contradict: a name")
    entities: list[str] | None = Field(
        default=None,
        max_length=8,
        description="reason: the names; add: names it is about, besides those in it",
    )
    fact_id: int | None = Field(default=None, description="update, remove, contradict: the fact's id")
    category: Category | None = Field(default=None, description="add, update; search, list: only these")
    tags: str | None = Field(default=None, max_length=MAX_TAGS_LENGTH, description="add, update: with commas")
    trust_delta: float | None = Field(default=None, ge=-1, le=1, description="update: change of its trust")
    min_trust: float = Field(default=MIN_TRUST, ge=0, le=1, description="least trust of what is found")
    limit: int = Field(default=10, ge=1, le=MAX_LIMIT, description="how many at most")

    def run(self, memory: "HolographicMemory") -> dict[str, Any]:
        return memory.actions.run_action(self)


class FactFeedbackArguments(ToolArguments):
    """Rate a fact after using it: helpful when it was right, unhelpful when it was wrong or out of date."""

    action: Literal["helpful", "unhelpful"]
    fact_id: int = Field(description="the fact's id")

    def run(self, memory: "HolographicMemory") -> dict[str, Any]:
        fact = memory.actions.feedback(self.fact_id, helpful=self.action == "helpful")
        if fact is None:
            return {"error": f"there is no fact {self.fact_id}"}
        return {"rated": fact.id, "trust": round(fact.trust, 3)}


TOOLS: dict[str, type[ToolArguments]] = {
    "fact_store": FactStoreArguments,
    "fact_feedback": FactFeedbackArguments,
}


def required(call: FactStoreArguments, name: str) -> Any:  # noqa: ANN401 - as the field has it
    """An argument that the action can't do without."""
    value = getattr(call, name)
    if value is None or value in ("", []):
        raise InvalidInput(f"{call.action} needs {name}")
    return value


def fact_json(fact: Fact) -> dict[str, Any]:
    """A fact as the model sees it."""
    shown = {"id": fact.id, "content": fact.content, "category": fact.category, "trust": round(fact.trust, 3)}
    return shown | ({"tags": fact.tags} if fact.tags else {})
