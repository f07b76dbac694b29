"""The ledger: what the server was sent, and what it still has to extract. One small SQLite file.

OpenViking has no key for a turn, so the sender must know what it sent. A turn goes through `owed`,
`sending` (in doubt until the server was asked), `sent`, `committed` (with others, as a stretch) and `done`.
"""

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import aiosql

from holdfast.core.errors import SchemaTooNew, StoreUnopenable
from holdfast.sessions.sqlite.opening import split_statements

SCHEMA = 1
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One turn as it is sent."""

    key: str
    turn: str
    messages: list[dict[str, Any]]
    in_doubt: bool = False
    """It was being sent when an earlier attempt ended; the server may have it."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Turns of one session that were committed together and are not known to be extracted."""

    id: int
    session: str
    state: str
    task: str
    archive: str
    attempt: int
    error: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many turns stand where."""

    unsent: int
    uncommitted: int
    extracting: int
    done: int


@cache
def load_queries() -> Any:  # noqa: ANN401 - aiosql's are dynamic
    source = files("holdfast.memory.providers.openviking").joinpath("queries.sql")
    return aiosql.from_str(source.read_text(encoding="utf-8"), "sqlite3")


class Ledger:
    """Used by one thread. Each method is one transaction, on disk when it returns."""

    def __init__(self, path: Path) -> None:
        self._queries = load_queries()
        self._connection = _open(path)

    def close(self) -> None:
        self._connection.close()

    # sending

    def add(self, key: str, session: str, entry: Entry) -> None:
        """Write down a turn that is to be sent; one that is known stays as it is."""
        with self._transaction() as connection:
            self._queries.add_turn(
                connection, key=key, session=session, turn=entry.turn, payload=json.dumps(entry.messages)
            )

    def unsent(self, keys: Sequence[str]) -> list[Entry]:
        """Those of the turns that are not known to be on the server."""
        rows = self._queries.unsent(self._connection, keys=json.dumps(list(keys)))
        return [
            Entry(key, turn, json.loads(payload), state == "sending") for key, turn, state, payload in rows
        ]

    def sending(self, keys: Sequence[str]) -> None:
        """From now on it is in doubt whether the server has them."""
        with self._transaction() as connection:
            self._queries.mark_sending(connection, keys=json.dumps(list(keys)))

    def sent(self, keys: Sequence[str]) -> None:
        """The server has them."""
        with self._transaction() as connection:
            self._queries.mark_sent(connection, keys=json.dumps(list(keys)))

    def forget_unsent(self, keys: Sequence[str]) -> None:
        """They come again from the outbox, or a person drops them there."""
        with self._transaction() as connection:
            self._queries.forget_unsent(connection, keys=json.dumps(list(keys)))

    # committing

    def sessions_to_commit(self) -> list[str]:
        return [row[0] for row in self._queries.sessions_to_commit(self._connection)]

    def begin_commit(self, session: str) -> int | None:
        """Gather what was sent into a stretch; None when there is nothing to commit."""
        with self._transaction() as connection:
            stretch = self._queries.committing_stretch(connection, session=session)
            if stretch is None and not self._queries.count_sent(connection, session=session):
                return None
            return self._gather(connection, session, attempt=1)

    def committed(self, stretch: int, task: str, archive: str) -> None:
        """The server has taken the commit."""
        with self._transaction() as connection:
            self._queries.mark_extracting(connection, stretch=stretch, task=task, archive=archive)

    def _gather(self, connection: sqlite3.Connection, session: str, attempt: int) -> int:
        self._queries.begin_stretch(connection, session=session, attempt=attempt)
        stretch = int(self._queries.committing_stretch(connection, session=session))
        self._queries.gather(connection, session=session, stretch=stretch)
        return stretch

    # extracting

    def stretches(self) -> list[Stretch]:
        return [Stretch(*row) for row in self._queries.stretches(self._connection)]

    def stretch(self, stretch: int) -> Stretch | None:
        rows = list(self._queries.stretch_by_id(self._connection, stretch=stretch))
        return Stretch(*rows[0]) if rows else None

    def turns_of(self, stretch: int) -> list[Entry]:
        rows = self._queries.turns_of_stretch(self._connection, stretch=stretch)
        return [Entry(key, turn, json.loads(payload)) for key, turn, payload in rows]

    def done(self, stretch: int) -> None:
        """Extracted: the words are the server's now, and only the keys are kept."""
        with self._transaction() as connection:
            self._queries.finish_turns(connection, stretch=stretch)
            self._queries.drop_stretch(connection, stretch=stretch)

    def failed(self, stretch: int, error: str) -> None:
        """Not extracted: its turns have to be sent again."""
        with self._transaction() as connection:
            self._queries.resend_turns(connection, stretch=stretch)
            self._queries.mark_resending(connection, stretch=stretch, error=error)

    def resent(self, old: Stretch) -> int:
        """The server has its turns again; they are committed anew, with whatever else was sent."""
        with self._transaction() as connection:
            stretch = self._gather(connection, old.session, attempt=old.attempt + 1)
            self._queries.gather_resent(connection, old=old.id, stretch=stretch)
            self._queries.drop_stretch(connection, stretch=old.id)
            return stretch

    def hold(self, stretch: int, *, now: float, seconds: float) -> bool:
        """Follow a stretch alone: another process that lives may be doing it."""
        me = os.getpid()
        holder = int(self._queries.holder_of(self._connection, stretch=stretch) or 0)
        dead = holder if holder and not _lives(holder) else 0
        with self._transaction() as connection:
            taken = self._queries.hold(
                connection, stretch=stretch, holder=me, dead=dead, now=now, until=now + seconds
            )
        return bool(taken)

    def release_all(self) -> None:
        """Say that this process follows nothing any more."""
        with self._transaction() as connection:
            self._queries.release(connection, holder=os.getpid())

    def counts(self) -> Counts:
        return Counts(*next(iter(self._queries.counts(self._connection))))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("begin immediate")
        try:
            yield self._connection
        except BaseException:
            self._connection.execute("rollback")
            raise
        self._connection.execute("commit")


def _open(path: Path) -> sqlite3.Connection:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=PATIENCE_SECONDS, isolation_level=None)
    except (OSError, sqlite3.Error) as cause:
        raise StoreUnopenable(str(path), str(cause)) from cause
    try:
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute("pragma foreign_keys = on")
        _migrate(connection, path)
    except sqlite3.Error as cause:
        connection.close()
        raise StoreUnopenable(str(path), str(cause)) from cause
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("begin immediate")
    version = int(connection.execute("pragma user_version").fetchone()[0])
    if not version:
        source = files("holdfast.memory.providers.openviking").joinpath("schema.sql")
        for statement in split_statements(source.read_text(encoding="utf-8")):
            connection.execute(statement)
        connection.execute(f"pragma user_version = {SCHEMA}")
    connection.execute("commit")
    if version > SCHEMA:
        raise SchemaTooNew(str(path), str(version), str(SCHEMA))


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
