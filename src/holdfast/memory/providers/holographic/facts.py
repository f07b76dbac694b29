"""What a fact is, how much it is trusted, and how large it may be. Read this first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from holdfast.core.errors import InvalidInput
from holdfast.memory.providers.local.passages import MICRO, storable

LONGEST_FACT = 2000
LONGEST_TAGS = 200
LONGEST_NAME = 80
DEFAULT_TRUST = 0.5
LEAST_TRUST = 0.3
HELPFUL, UNHELPFUL = 0.05, -0.10

Category = Literal["user_pref", "project", "tool", "general"]
CATEGORIES: tuple[str, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class Statement:
    """A fact to be kept."""

    content: str
    category: str = "general"
    tags: str = ""
    entities: tuple[str, ...] = ()
    """Names it is about, besides those that its text shows."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where something was said."""

    session_id: str
    turn_id: str


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as it is kept."""

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
class Counts:
    """How much is kept."""

    facts: int
    entities: int
    waiting: int
    """Conversations whose facts have not been extracted yet."""


def fact_of(row: Sequence[Any], score: float = 0.0) -> Fact:
    """A row of the table as a fact."""
    fact_id, content, category, tags, trust, helpful, unhelpful, created, updated = row
    return Fact(
        fact_id, content, category, tags, trust, helpful, unhelpful, created / MICRO, updated / MICRO, score
    )


def checked_content(content: str) -> str:
    kept = storable(content)
    if not kept or len(kept) > LONGEST_FACT:
        raise InvalidInput(f"a fact has 1 to {LONGEST_FACT} characters, not {len(kept)}")
    return kept


def checked_category(category: str) -> str:
    if category not in CATEGORIES:
        raise InvalidInput(f"a category is one of {', '.join(CATEGORIES)}")
    return category


def checked_tags(tags: str) -> str:
    kept = storable(tags)
    if len(kept) > LONGEST_TAGS:
        raise InvalidInput(f"tags have at most {LONGEST_TAGS} characters, not {len(kept)}")
    return kept
