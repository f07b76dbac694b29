"""`UsageReports`: how many tokens were used and what they cost, by day, model, conversation or turn."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Literal

from holdfast.core.contract import Clock
from holdfast.core.errors import InvalidInput
from holdfast.host.store_calls import StoreCalls
from holdfast.models.contract import dollars
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.usage import UsageRow

Grouping = Literal["day", "model", "conversation", "purpose"]
MOST_DAYS = 3660
DELETED = "(deleted or none)"


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """What some requests used together."""

    requests: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    """Of the input, read from a prompt cache."""
    cost: str | None
    """Dollars as a decimal number; None: the price of at least one request is not known."""
    known_cost: str
    """Dollars of the requests whose price is known."""
    unpriced_requests: int


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """One line of a report: a day, a model, a conversation or a purpose."""

    key: str
    title: str
    """Of a conversation: its title or its first words; else the key."""
    total: UsageTotal


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was used in a time."""

    since_ms: int
    by: Grouping
    groups: tuple[UsageGroup, ...]
    total: UsageTotal


def total_of(rows: Iterable[UsageRow]) -> UsageTotal:
    """The sum of some rows."""
    found = list(rows)
    cost, unpriced = sum((each.cost for each in found), Decimal()), sum(each.unpriced for each in found)
    return UsageTotal(
        requests=sum(each.requests for each in found),
        input_tokens=sum(each.input for each in found),
        output_tokens=sum(each.output for each in found),
        cached_tokens=sum(each.cached for each in found),
        cost=None if unpriced else dollars(cost),
        known_cost=dollars(cost),
        unpriced_requests=unpriced,
    )


def usage_report(db: SessionDB, now: float, days: int, by: Grouping, scope: str | None = None) -> UsageReport:
    """What was used today and on the days before it, in the local time zone. Blocks on the store."""
    if not 1 <= days <= MOST_DAYS:
        raise InvalidInput(f"a report is of 1 to {MOST_DAYS} days, not {days}")
    today = datetime.fromtimestamp(now, UTC).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    since = int((today - timedelta(days=days - 1)).timestamp())
    rows = db.usage.read(since=since * SECOND, scope=scope)
    groups: dict[str, list[UsageRow]] = {}
    for row in rows:
        groups.setdefault(KEYS[by](row), []).append(row)
    lines = [UsageGroup(key, _title(db, by, key), total_of(each)) for key, each in groups.items()]
    lines.sort(key=(lambda each: each.key) if by == "day" else _weight, reverse=True)
    return UsageReport(since * 1000, by, tuple(lines), total_of(rows))


def _weight(group: UsageGroup) -> tuple[Decimal, int]:
    return Decimal(group.total.known_cost), group.total.input_tokens + group.total.output_tokens


def _day(row: UsageRow) -> str:
    return datetime.fromtimestamp(row.start / SECOND, UTC).astimezone().strftime("%Y-%m-%d")


KEYS: dict[Grouping, Callable[[UsageRow], str]] = {
    "day": _day,
    "model": lambda row: row.model,
    "conversation": lambda row: row.root_id or "",
    "purpose": lambda row: row.purpose,
}


def _title(db: SessionDB, by: Grouping, key: str) -> str:
    if by != "conversation":
        return key
    if not key or db.get_session(key) is None:
        return DELETED
    listed = db.conversations.find(key)
    return listed.session.title or listed.opening or key


class UsageReports:
    """The usage of a host's store. Every method on the host's loop."""

    def __init__(self, db: SessionDB, call: StoreCalls, clock: Clock) -> None:
        self._db = db
        self._call = call
        self._clock = clock

    async def report(self, days: int = 30, by: Grouping = "day", *, scope: str | None = None) -> UsageReport:
        """What was used today and on the days before it, by all or in the conversations of a scope."""
        return await self._call(usage_report, self._db, self._clock.now(), days, by, scope)

    async def conversation(self, session_id: str) -> UsageTotal:
        """What a conversation has used so far: its turns, subagents, summaries and titles."""
        return await self._call(lambda: total_of(self._db.usage.read(session_id=session_id)))

    async def turn(self, turn_id: str) -> UsageTotal:
        """What a turn that has ended used, with its subagents and summaries."""
        return await self._call(lambda: total_of(self._db.usage.read(turn_id=turn_id)))
