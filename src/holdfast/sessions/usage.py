"""Usage: how many tokens requests to models took, and what they cost. Exact: whole numbers in the store.

A turn's own usage is stored in the transaction that ends it (`turn_operations.py`); `record` is for requests
outside of turns, such as a title or a review. Subagents count for the turn that they work for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from holdfast.core.errors import SessionNotFound
from holdfast.sessions.codec import LARGEST, checked_name
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import require_session, root_of

UNITS = 10**12
"""Units of a dollar in the store: a token at any usual price costs a whole number of them."""
QUARTER_US = 900_000_000


@dataclass(frozen=True, slots=True)
class UsageEntry:
    """What some requests to one model used, for one purpose."""

    purpose: str
    """`turn`, `subagent`, `summary`, `review`, `title`, `memory`, or any other word."""
    model: str
    requests: int = 1
    input: int = 0
    output: int = 0
    cached: int = 0
    """Tokens of the input that were read from a prompt cache."""
    cost: Decimal | None = None
    """Dollars; None: the price or the number of tokens is not known."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What was used in a quarter of an hour, by conversation, purpose and model."""

    start: int
    """When the quarter began, in microseconds."""
    root_id: str | None
    purpose: str
    model: str
    requests: int
    input: int
    output: int
    cached: int
    cost: Decimal
    """Dollars of the requests whose price is known."""
    unpriced: int
    """Requests whose price is not known."""


class UsageRecords:
    """What was used, in the whole store. Synchronous and thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, session_id: str | None, entries: Sequence[UsageEntry]) -> None:
        """Store what requests outside of turns used; None: for no conversation."""
        if entries:
            self._engine.write(record_usage(session_id, entries))

    def keep(self, session_id: str | None, entries: Sequence[UsageEntry]) -> None:
        """Store it, for no conversation where that one was deleted meanwhile."""
        try:
            self.record(session_id, entries)
        except SessionNotFound:
            self.record(None, entries)

    def read(
        self,
        *,
        since: int = 0,
        until: int = LARGEST,
        session_id: str | None = None,
        turn_id: str | None = None,
        scope: str | None = None,
    ) -> list[UsageRow]:
        """What was used in a time, in a conversation, or in a turn with its subagents; oldest first.

        Of a scope, what is on record for conversations that are still there.
        """

        def work(tx: Transaction) -> list[UsageRow]:
            root = None if session_id is None else root_of(tx, session_id)
            rows = tx.queries.usage_by_quarter_hour(
                since=since, until=until, root=root, turn_id=turn_id, scope=scope
            )
            return [_from_row(row) for row in rows]

        return self._engine.read(work)


@operation
def record_usage(session_id: str | None, entries: Sequence[UsageEntry]) -> Callable[[Transaction], None]:
    """Store what requests outside of turns used."""
    for each in entries:
        checked_name("a purpose", each.purpose)

    def work(tx: Transaction) -> None:
        if session_id is not None:
            require_session(tx, session_id)
        insert_usage(tx, session_id, None, entries)

    return work


def insert_usage(
    tx: Transaction, session_id: str | None, turn_id: str | None, entries: Sequence[UsageEntry]
) -> None:
    """Store usage in a transaction that is open, for the conversation of a session or for none."""
    for each in entries:
        tx.queries.ahead.insert_usage(
            session_id=session_id,
            turn_id=turn_id,
            purpose=each.purpose,
            model=each.model,
            requests=each.requests,
            input_tokens=each.input,
            output_tokens=each.output,
            cached_tokens=each.cached,
            cost=None if each.cost is None else _units(each.cost),
        )


def _units(cost: Decimal) -> int:
    return int((cost * UNITS).to_integral_value(ROUND_HALF_EVEN))


def _from_row(row: Sequence[Any]) -> UsageRow:
    start, root, purpose, model, requests, read, written, cached, cost, unpriced = row
    known = Decimal(cost or 0) / UNITS
    return UsageRow(
        start * QUARTER_US, root, purpose, model, requests, read, written, cached, known, unpriced
    )
