"""Finds out what became of a transaction whose COMMIT got no answer: the server knows it by its number.

Each transaction that writes asks for its number when it begins, in the same round trip. After a lost
connection another one asks for that number: it was committed, or undone, or is open since COMMIT never came.
Another server that took over (a promoted standby) has a history, and so numbers, of its own from then on: it
is known by its timeline, and is not asked.
"""

from dataclasses import dataclass
from typing import Any, Literal

import psycopg

from holdfast.sessions.postgres.schema import Connection

Outcome = Literal["committed", "undone", "open", "unknown"]

# A standby has no numbers to give; it refuses the first write by name.
MARK = (
    "select case when pg_is_in_recovery() then null else pg_current_xact_id()::text end,"
    " case when pg_is_in_recovery() then null else left(pg_walfile_name(pg_current_wal_lsn()), 8) end"
)
STATUS = (
    "select pg_xact_status(%s::xid8)"
    " where not pg_is_in_recovery() and left(pg_walfile_name(pg_current_wal_lsn()), 8) = %s"
)
OUTCOMES: dict[str, Outcome] = {"committed": "committed", "aborted": "undone", "in progress": "open"}


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """A transaction's number, and the timeline of the server's history in which it counts."""

    number: str
    timeline: str


def mark_of(answer: psycopg.Cursor[Any]) -> TransactionMark | None:
    """The mark in the answer to `MARK`; None where the server gives none."""
    row = answer.fetchone()
    return TransactionMark(*row) if row is not None and row[0] is not None else None


def outcome_of(connection: Connection, mark: TransactionMark) -> Outcome:
    """What became of it, as far as this server knows."""
    try:
        row = connection.execute(STATUS, (mark.number, mark.timeline)).fetchone()
    except psycopg.errors.InvalidParameterValue:
        return "unknown"  # a number that this server has yet to give
    return OUTCOMES.get(row[0], "unknown") if row else "unknown"
