"""Finds out what became of a transaction whose COMMIT got no answer: the server knows it by its number.

Each transaction that writes asks for its number when it begins, in the same round trip. After a lost
connection another one asks for that number: it was committed, or undone, or is open since COMMIT never came.
A server that crashed may give a number that was not yet on disk a second time, so "committed" counts only
where the server has run since before the transaction; "undone" is true either way. Another server that took
over (a promoted standby) has numbers of its own from then on: it is known by its timeline, and not believed.
"""

from dataclasses import dataclass
from typing import Any, Literal

import psycopg

from holdfast.sessions.postgres.schema import Connection

Outcome = Literal["committed", "undone", "open", "unknown"]

# A standby has no numbers to give; it refuses the first write by name.
MARK = (
    "select case when not pg_is_in_recovery() then pg_current_xact_id()::text end,"
    " case when not pg_is_in_recovery() then left(pg_walfile_name(pg_current_wal_lsn()), 8) end,"
    " now()::text"
)
# The server's statistics begin anew after a crash, also one that its main process outlived.
STATUS = (
    "select pg_xact_status(%s::xid8),"
    " greatest(pg_postmaster_start_time(), (select stats_reset from pg_stat_bgwriter)) < %s::timestamptz"
    " where not pg_is_in_recovery() and left(pg_walfile_name(pg_current_wal_lsn()), 8) = %s"
)


@dataclass(frozen=True, slots=True)
class TransactionMark:
    """A transaction's number, the timeline of the server's history in which it counts, and when it began."""

    number: str
    timeline: str
    began: str


def mark_of(answer: psycopg.Cursor[Any]) -> TransactionMark | None:
    """The mark in the answer to `MARK`; None where the server gives none."""
    row = answer.fetchone()
    return TransactionMark(*row) if row is not None and row[0] is not None else None


def outcome_of(connection: Connection, mark: TransactionMark) -> Outcome:
    """What became of it, as far as this server knows."""
    try:
        row = connection.execute(STATUS, (mark.number, mark.began, mark.timeline)).fetchone()
    except psycopg.errors.InvalidParameterValue:
        return "undone"  # the server forgot in a crash that it gave this number
    match row:
        case ("committed", True):
            return "committed"
        case ("aborted", _):
            return "undone"
        case ("in progress", _):
            return "open"
        case _:
            return "unknown"
