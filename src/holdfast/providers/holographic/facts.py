"""The data types of facts, with the limits of their size and trust. Read this first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.core.errors import InvalidInput
from holdfast.providers.local.passages import MICRO, storable

MAX_FACT_LENGTH = 2000
MAX_TAGS_LENGTH = 200
MAX_NAME_LENGTH = 80
DEFAULT_TRUST = 0.5
MIN_TRUST = 0.3
HELPFUL, UNHELPFUL = 0.05, -0.10

Category = Literal["user_pref", "project", "tool", "general"]
CATEGORIES: tuple[str, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact to be stored."""

    content: str
    category: str = "general"
    tags: str = ""
    entities: tuple[str, ...] = ()
    """Its entities, besides those that are found in its text."""


WHOLE_SESSION = ""
"""In place of a turn: the fact was extracted from a conversation as a whole."""


@dataclass(frozen=True, slots=True)
class FactSource:
    """The session and turn of a fact."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored fact."""

    id: int
    content: str
    category: str
    tags: str
    trust: float
    helpful: int
    unhelpful: int
    created: float
    updated: float
    """When its text was last changed."""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class HolographicDescription:
    """The state of the memory, for `status` and `doctor`."""

    path: str
    facts: int
    entities: int
    waiting: int
    """Conversations whose facts have not been extracted yet."""

    def __str__(self) -> str:
        waiting = f"; {self.waiting} conversations wait for extraction" if self.waiting else ""
        return f"{self.path}: {self.facts} facts about {self.entities} entities{waiting}"


def fact_of(row: Sequence[Any], score: float = 0.0) -> Fact:
    """A row of the table as a fact."""
    fact_id, content, category, tags, trust, helpful, unhelpful, created, updated = row
    return Fact(
        fact_id, content, category, tags, trust, helpful, unhelpful, created / MICRO, updated / MICRO, score
    )


def check_content(content: str) -> str:
    kept = storable(content)
    if not kept or len(kept) > MAX_FACT_LENGTH:
        raise InvalidInput(f"a fact has 1 to {MAX_FACT_LENGTH} characters, not {len(kept)}")
    return kept


def check_category(category: str) -> str:
    if category not in CATEGORIES:
        raise InvalidInput(f"a category is one of {', '.join(CATEGORIES)}")
    return category


def check_tags(tags: str) -> str:
    kept = storable(tags)
    if len(kept) > MAX_TAGS_LENGTH:
        raise InvalidInput(f"tags have at most {MAX_TAGS_LENGTH} characters, not {len(kept)}")
    return kept
