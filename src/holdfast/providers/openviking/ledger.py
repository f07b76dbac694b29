"""The ledger: the turns that were sent to the server, and what it still has to extract. A small SQLite file.

OpenViking has no idempotency key for a turn, so the sender records what it has sent. The states of a turn are
`owed`, `sending` (in doubt until the server was asked), `sent`, `committed` (as part of a batch) and `done`.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from holdfast.core.errors import SchemaTooNew, StoreUnopenable
from holdfast.providers.provider_file import create_tables, load_queries, prepare_file
from holdfast.sessions.sqlite.open_files import OpenFiles

PACKAGE = "holdfast.providers.openviking"
SCHEMA = 1
BUSY_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One turn with the messages that are sent."""

    key: str
    turn: str
    messages: list[dict[str, Any]]
    in_doubt: bool = False
    """An earlier attempt was interrupted; the server may have the turn."""


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Turns of one session that were committed together and are not yet extracted."""

    id: int
    session: str
    state: str
    task: str
    archive: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """The number of turns in each state."""

    unsent: int
    uncommitted: int
    extracting: int
    done: int


class Ledger:
    """Used by one thread. Each method that writes is one transaction, on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._queries = load_queries(PACKAGE)
        self._connection = _open(path)
        self._files = OpenFiles(self._connection, str(path))

    def close(self) -> None:
        self._connection.close()

    # sending

    def add(self, session: str, entry: LedgerEntry) -> None:
        """Record a turn before it is sent; a known turn is not changed."""
        payload = json.dumps(entry.messages)
        with self._transaction() as connection:
            self._queries.add_turn(
                connection, key=entry.key, session=session, turn=entry.turn, payload=payload
            )

    def unsent(self, keys: Sequence[str]) -> list[LedgerEntry]:
        """The turns that may be missing on the server."""
        rows = self._queries.unsent(self._connection, keys=json.dumps(list(keys)))
        return [
            LedgerEntry(key, turn, json.loads(payload), state == "sending")
            for key, turn, state, payload in rows
        ]

    def mark_sending(self, keys: Sequence[str]) -> None:
        """The turns are being sent; until the answer, the server may or may not have them."""
        with self._transaction() as connection:
            self._queries.mark_sending(connection, keys=json.dumps(list(keys)))

    def mark_sent(self, keys: Sequence[str]) -> None:
        """The server has the turns."""
        with self._transaction() as connection:
            self._queries.mark_sent(connection, keys=json.dumps(list(keys)))

    def forget_unsent(self, keys: Sequence[str]) -> None:
        """Delete turns that were not sent; the outbox delivers them again."""
        with self._transaction() as connection:
            self._queries.forget_unsent(connection, keys=json.dumps(list(keys)))

    def forget_session(self, session: str) -> None:
        """Delete all that is recorded of a session, with the text of its turns."""
        with self._transaction() as connection:
            self._queries.forget_turns_of(connection, session=session)
            self._queries.forget_batches_of(connection, session=session)
        self._connection.execute("pragma wal_checkpoint(truncate)").fetchone()

    # committing

    def sessions_to_commit(self) -> list[str]:
        return [row[0] for row in self._queries.sessions_to_commit(self._connection)]

    def begin_commit(self, session: str) -> int | None:
        """Collect the sent turns of a session in a batch; None when there are none."""
        with self._transaction() as connection:
            batch = self._queries.committing_batch(connection, session=session)
            if batch is None and not self._queries.count_sent(connection, session=session):
                return None
            return self._gather(connection, session, attempt=1)

    def mark_extracting(self, batch: int, task: str, archive: str) -> None:
        """The server has accepted the commit."""
        with self._transaction() as connection:
            self._queries.mark_extracting(connection, batch=batch, task=task, archive=archive)

    def _gather(self, connection: sqlite3.Connection, session: str, attempt: int) -> int:
        self._queries.begin_batch(connection, session=session, attempt=attempt)
        batch = int(self._queries.committing_batch(connection, session=session))
        self._queries.gather(connection, session=session, batch=batch)
        return batch

    # extracting

    def batches(self) -> list[CommitBatch]:
        return [CommitBatch(*row) for row in self._queries.batches(self._connection)]

    def batch(self, batch: int) -> CommitBatch | None:
        rows = list(self._queries.batch_by_id(self._connection, batch=batch))
        return CommitBatch(*rows[0]) if rows else None

    def turns_of(self, batch: int) -> list[LedgerEntry]:
        rows = self._queries.turns_of_batch(self._connection, batch=batch)
        return [LedgerEntry(key, turn, json.loads(payload)) for key, turn, payload in rows]

    def mark_done(self, batch: int) -> None:
        """The batch is extracted: delete its text and keep the keys."""
        with self._transaction() as connection:
            self._queries.finish_turns(connection, batch=batch)
            self._queries.drop_batch(connection, batch=batch)

    def mark_failed(self, batch: int, error: str) -> None:
        """The extraction failed: the turns must be sent again."""
        with self._transaction() as connection:
            self._queries.resend_turns(connection, batch=batch)
            self._queries.mark_resending(connection, batch=batch, error=error)

    def begin_next_attempt(self, old: CommitBatch) -> int:
        """Move the turns that were sent again into a new batch, with all others sent since."""
        with self._transaction() as connection:
            batch = self._gather(connection, old.session, attempt=old.attempt + 1)
            self._queries.gather_resent(connection, old=old.id, batch=batch)
            self._queries.drop_batch(connection, batch=old.id)
            return batch

    def hold(self, batch: int, *, now: float, seconds: float) -> bool:
        """Claim a batch for this process; False while another living process follows it."""
        me, until = os.getpid(), now + seconds
        with self._transaction() as connection:
            holder = int(self._queries.holder_of(connection, batch=batch) or 0)
            dead = 0 if psutil.pid_exists(holder) else holder
            return bool(
                self._queries.hold(connection, batch=batch, holder=me, dead=dead, now=now, until=until)
            )

    def release_all(self) -> None:
        """Release all batches of this process."""
        with self._transaction() as connection:
            self._queries.release(connection, holder=os.getpid())

    def counts(self) -> LedgerCounts:
        return LedgerCounts(*next(iter(self._queries.counts(self._connection))))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("begin immediate")
        try:
            yield self._connection
            self._files.require()
            self._connection.execute("commit")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            raise


def _open(path: Path) -> sqlite3.Connection:
    prepare_file(path)
    with contextlib.ExitStack() as on_failure:
        try:
            connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_SECONDS, isolation_level=None)
            on_failure.callback(connection.close)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")
            connection.execute("pragma foreign_keys = on")
            # Freed pages are overwritten with zeros, so deleted text is not left in the file.
            connection.execute("pragma secure_delete = on")
            _migrate(connection, path)
        except sqlite3.Error as cause:
            raise StoreUnopenable(str(path), str(cause)) from cause
        on_failure.pop_all()
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("begin immediate")
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if not version:
        create_tables(connection, PACKAGE)
        connection.execute(f"pragma user_version = {SCHEMA}")
    connection.execute("commit")
    if version > SCHEMA:
        raise SchemaTooNew(str(path), str(version), str(SCHEMA))
