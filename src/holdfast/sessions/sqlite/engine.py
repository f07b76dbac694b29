"""SQLite as an `Engine`: writes through the group writer, reads on the reader pool.

In memory there is one connection only, so reads go through the writer too.
"""

import atexit
import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdfast.core.contract import Clock
from holdfast.core.errors import RECOVER_A_FILE, BackupRefused, DatabaseDamaged, StoreFailure
from holdfast.core.ids import new_id
from holdfast.process import DaemonPool
from holdfast.sessions.contract import NoNotifications, Operation, Transaction
from holdfast.sessions.queries import load_queries
from holdfast.sessions.sqlite.connection import SqliteFile, settled_path
from holdfast.sessions.sqlite.errors import translate
from holdfast.sessions.sqlite.forks import note_closed, note_opened
from holdfast.sessions.sqlite.readers import ReaderPool
from holdfast.sessions.sqlite.search_index import index_batch
from holdfast.sessions.sqlite.writer import GroupWriter

T = TypeVar("T")

EXIT_SECONDS = 3.0
"""How long the end of a program may wait for a store that it did not close."""
STEP_PAGES = 1_000
"""How many pages a backup copies without looking up."""


class SqliteEngine:
    """A database in one file, for many threads and many processes."""

    recovery = RECOVER_A_FILE
    is_shared = False
    notifications = NoNotifications()

    def __init__(self, path: str, *, clock: Clock, patience: float, create: bool = True) -> None:
        self._file = SqliteFile(settled_path(path), clock, patience, create)
        self.location = self._file.path
        queries = load_queries("sqlite", "sqlite3")
        self._writer = GroupWriter(self._file, queries)
        files = self._writer.files
        self._readers = None if files is None else ReaderPool(self._file, files, queries)
        self._opened = None if self._file.in_memory else note_opened(self._file.path)
        # A program may end without closing its store; whoever uses the store was made later, and ends first.
        atexit.register(self._close_at_exit)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._writer.write(work)

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        if self._file.in_memory:
            self._writer.post(work)
        else:
            self.write(work)
        then()

    def read_once(self, work: Callable[[Transaction], T]) -> T:
        return self.read(work)

    def read(self, work: Callable[[Transaction], T]) -> T:
        if self._readers is None:
            return self._writer.write(work)
        return self._readers.read(work)

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:  # noqa: ARG002 - the writer runs it
        return await self._writer.submit(operation)

    def refresh_search(self) -> None:
        last = self.read(lambda tx: int(tx.queries.last_searchable_message()))
        # Up to here and no further: others may append faster than this indexes.
        while self.read(lambda tx: int(tx.queries.last_indexed_message())) < last:
            self.write(index_batch)

    def check(self) -> list[str]:
        try:
            self.refresh_search()
            return self.write(_inconsistencies)
        except DatabaseDamaged as damage:
            # Some damage ends the very look at it.
            return [str(damage)]

    def backup(self, target: str) -> None:
        """Copy by SQLite's own online backup: one snapshot, with writers going on beside it."""
        if self._readers is None:
            # Its one connection is the writer's, and would wait for its own transaction to end.
            raise BackupRefused("a store in memory has no backup; export its sessions instead")
        if os.path.lexists(target):
            raise BackupRefused(f"{target} already exists and was left as it is; choose a new name")
        unfinished = f"{target}.{new_id()}.unfinished"
        try:
            self.read(lambda tx: _copy(tx.connection, unfinished))
            _place(unfinished, target)
        except FileExistsError as cause:
            raise BackupRefused(
                f"{target} already exists and was left as it is; choose a new name"
            ) from cause
        except (OSError, StoreFailure) as cause:
            raise BackupRefused(f"no backup was written to {target}: {cause}") from cause
        finally:
            for leftover in (unfinished, f"{unfinished}-wal", f"{unfinished}-shm"):
                with contextlib.suppress(OSError):
                    Path(leftover).unlink(missing_ok=True)

    def close(self) -> None:
        self._close(None)

    def _close_at_exit(self) -> None:
        self._close(EXIT_SECONDS)

    def _close(self, seconds: float | None) -> None:
        atexit.unregister(self._close_at_exit)
        if self._readers is not None:
            self._readers.close()
        self._writer.close(seconds)
        if self._opened is not None:
            note_closed(self._opened)
            self._opened = None


def _copy(source: sqlite3.Connection, path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    target = sqlite3.connect(path)
    try:
        # The snapshot begins with a read; without it each step would see the latest state and start over.
        source.execute("select 1 from sqlite_schema").fetchone()
        # Between two steps Python gets to see a signal.
        source.backup(target, pages=STEP_PAGES, progress=lambda *_: None)
        # Out of WAL mode the copy is one file, synced when the pragma returns.
        target.execute("pragma synchronous = full")
        target.execute("pragma journal_mode = delete")
        damage = target.execute("pragma quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise translate(sqlite3.DatabaseError(damage), path, 0)
    finally:
        target.close()
    with Path(path).open("rb") as written:
        os.fsync(written.fileno())


def _place(unfinished: str, target: str) -> None:
    """Give the finished copy its name, unless somebody else has taken it meanwhile."""
    os.link(unfinished, target)
    folder = os.open(Path(target).absolute().parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _inconsistencies(tx: Transaction) -> list[str]:
    # Others append between the refresh and this transaction; the index is compared with all of it.
    while index_batch(tx):
        pass
    execute = tx.connection.execute
    found = [row[0] for row in execute("pragma integrity_check(20)") if row[0] != "ok"]
    found += [f"foreign key broken: {tuple(row)}" for row in execute("pragma foreign_key_check")]
    try:
        execute("insert into message_index (message_index, rank) values ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        found.append(f"search index: {error}")
    # Only what can be read is worth a look at what it says.
    return found or [row[0] for row in tx.queries.inconsistencies()]
