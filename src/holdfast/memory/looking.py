"""A person's look into a provider's memory: what it finds, and forgetting something of it.

A provider may have `search(query, limit)`, whose results have an `id` and a `text`, and `forget(id)`. One
without a search is asked as a turn would ask it, and answers with one text.
"""

from dataclasses import dataclass

from holdfast.core.errors import InvalidInput
from holdfast.memory.contract import MemoryProvider


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
    looking = getattr(provider, "search", None)
    if not callable(looking):
        text = provider.prefetch(query)
        return [Found(provider.name, None, text)] if text else []
    return [
        Found(
            provider.name,
            str(each.id),
            str(each.text),
            str(getattr(each, "kind", "")),
            str(getattr(each, "session_id", "")),
            getattr(each, "turn_id", None),
            str(getattr(each, "speaker", "")),
            getattr(each, "created", None),
        )
        for each in looking(query, limit)
    ]


def forget(provider: MemoryProvider, memory_id: str) -> bool:
    """Remove something for good; False when there is nothing with that id."""
    forgetting = getattr(provider, "forget", None)
    if not callable(forgetting):
        raise InvalidInput(f"{provider.name} can't forget single memories")
    return bool(forgetting(int(memory_id) if memory_id.isdecimal() else memory_id))
