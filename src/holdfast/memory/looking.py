"""A person's look into a provider's memory: what it finds, and forgetting something of it.

A provider that is not `Browsable` is asked as a turn would ask it, and answers with one text.
"""

from dataclasses import dataclass

from holdfast.core.errors import InvalidInput
from holdfast.memory.contract import Browsable, MemoryProvider

LONGEST_ID = 18
"""Digits; what has more is no number of any database."""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a provider remembers; without an id it can't be named to be forgotten."""

    provider: str
    id: str | None
    text: str
    kind: str = ""
    session_id: str = ""
    turn_id: str | None = None
    speaker: str = ""
    created: float | None = None
    """In seconds since the epoch."""


def search(provider: MemoryProvider, query: str, limit: int) -> list[Found]:
    """What the provider has on this, the best first."""
    if not isinstance(provider, Browsable):
        text = provider.prefetch(query)
        return [Found(provider.name, None, text)] if text else []
    return [
        Found(
            provider.name,
            str(each.id),
            each.text,
            each.kind,
            each.session_id,
            each.turn_id,
            each.speaker,
            each.when,
        )
        for each in provider.remembered(query, limit)
    ]


def forget(provider: MemoryProvider, memory_id: str) -> bool:
    """Remove something for good; False when there is nothing with that id."""
    if not isinstance(provider, Browsable):
        raise InvalidInput(f"{provider.name} can't forget single memories")
    if not memory_id.isdecimal() or len(memory_id) > LONGEST_ID:
        return False
    return provider.forget(int(memory_id))
