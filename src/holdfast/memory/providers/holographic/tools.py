"""The agent's tools: `fact_store`, which keeps and finds facts, and `fact_feedback`, which rates them."""

import json
from typing import Any, Literal, Protocol

from pydantic import Field, ValidationError

from holdfast.core.errors import InvalidInput
from holdfast.memory.providers.holographic.facts import (
    LEAST_TRUST,
    LONGEST_FACT,
    LONGEST_TAGS,
    Category,
    Fact,
)
from holdfast.memory.providers.tool_calls import Arguments, mistakes

MOST = 50


class FactStoreCall(Arguments):
    """Long-term facts about people, projects and things.

    add keeps a fact and says which known facts it contradicts; search finds facts by words; probe gives the
    facts about one entity; related gives what is connected with it; reason gives the facts that are about
    several entities at once; contradict lists facts that can't both be true; update changes a fact; remove
    forgets one for good; list shows the most trusted. A name nothing is known of is said to be unknown.
    """

    action: Literal["add", "search", "probe", "related", "reason", "contradict", "update", "remove", "list"]
    content: str | None = Field(
        default=None, max_length=LONGEST_FACT, description="add, update: one statement, clear by itself"
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
    tags: str | None = Field(default=None, max_length=LONGEST_TAGS, description="add, update: with commas")
    trust_delta: float | None = Field(default=None, ge=-1, le=1, description="update: change of its trust")
    min_trust: float = Field(default=LEAST_TRUST, ge=0, le=1, description="least trust of what is found")
    limit: int = Field(default=10, ge=1, le=MOST, description="how many at most")


class FactFeedbackCall(Arguments):
    """Rate a fact after using it: helpful when it was right, unhelpful when it was wrong or out of date."""

    action: Literal["helpful", "unhelpful"]
    fact_id: int = Field(description="the fact's id")


TOOLS: dict[str, type[Arguments]] = {"fact_store": FactStoreCall, "fact_feedback": FactFeedbackCall}


class Desk(Protocol):
    """What the tools work on."""

    def run_action(self, call: FactStoreCall) -> dict[str, Any]: ...
    def feedback(self, fact_id: int, *, helpful: bool) -> Fact | None: ...


def run_tool(desk: Desk, name: str, args: dict[str, Any]) -> str:
    """Run one tool. What the model got wrong comes back as text that says so."""
    try:
        call = TOOLS[name].model_validate(args)
        answer = _rated(desk, call) if isinstance(call, FactFeedbackCall) else _acted(desk, call)
    except ValidationError as cause:
        answer = {"error": mistakes(cause)}
    except InvalidInput as cause:
        answer = {"error": str(cause)}
    return json.dumps(answer, ensure_ascii=False)


def needed(call: FactStoreCall, name: str) -> Any:  # noqa: ANN401 - as the field has it
    """An argument that the action can't do without."""
    value = getattr(call, name)
    if value is None or value in ("", []):
        raise InvalidInput(f"{call.action} needs {name}")
    return value


def shown(fact: Fact) -> dict[str, Any]:
    """A fact as the model sees it."""
    told = {"id": fact.id, "content": fact.content, "category": fact.category, "trust": round(fact.trust, 3)}
    return told | ({"tags": fact.tags} if fact.tags else {})


def _acted(desk: Desk, call: Arguments) -> dict[str, Any]:
    if not isinstance(call, FactStoreCall):
        raise InvalidInput(f"no tool takes {type(call).__name__}")
    return desk.run_action(call)


def _rated(desk: Desk, call: FactFeedbackCall) -> dict[str, Any]:
    fact = desk.feedback(call.fact_id, helpful=call.action == "helpful")
    if fact is None:
        return {"error": f"there is no fact {call.fact_id}"}
    return {"rated": fact.id, "trust": round(fact.trust, 3)}
