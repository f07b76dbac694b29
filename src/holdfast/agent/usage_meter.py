"""`UsageMeter`: counts what an agent's requests to models use, until it is stored with the end of a turn."""

from dataclasses import replace
from decimal import Decimal

from holdfast.models.contract import ModelTraits, Usage
from holdfast.sessions.usage import UsageEntry

PURPOSES = {"delegate": "subagent", "review": "review"}
"""What the turns of an agent are for, by the source of its sessions; all others are a conversation's own."""
SUMMARY = "summary"


def usage_entry(purpose: str, traits: ModelTraits, usage: Usage | None) -> UsageEntry:
    """What one request used; None: the server did not say."""
    used = usage or Usage()
    cost = None if usage is None else traits.prices.cost(usage)
    return UsageEntry(purpose, traits.name, 1, used.input, used.output, used.cached, cost)


class UsageMeter:
    """What was used and is not stored yet, by purpose and model."""

    def __init__(self, source: str = "") -> None:
        self._purpose = PURPOSES.get(source, "turn")
        self._entries: dict[tuple[str, str], UsageEntry] = {}

    @property
    def entries(self) -> tuple[UsageEntry, ...]:
        return tuple(self._entries.values())

    def add(self, traits: ModelTraits, usage: Usage | None, purpose: str = "") -> Decimal | None:
        """Count one request; returns its cost, None when that is not known."""
        new = usage_entry(purpose or self._purpose, traits, usage)
        before = self._entries.get((new.purpose, new.model))
        self._entries[new.purpose, new.model] = new if before is None else _sum(before, new)
        return new.cost

    def stored(self, entries: tuple[UsageEntry, ...]) -> None:
        """These are stored, and nothing was counted since."""
        if entries == self.entries:
            self._entries.clear()


def _sum(one: UsageEntry, other: UsageEntry) -> UsageEntry:
    cost = None if one.cost is None or other.cost is None else one.cost + other.cost
    return replace(
        one,
        requests=one.requests + other.requests,
        input=one.input + other.input,
        output=one.output + other.output,
        cached=one.cached + other.cached,
        cost=cost,
    )
