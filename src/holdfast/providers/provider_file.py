"""The SQLite file of a provider, shared by threads and processes.

One connection writes and one reads (WAL), so a long write never delays a recall. A file of another program,
or with a newer schema, is never written. docs/decisions/0006 says why memory has files of its own.
"""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import aiosql

from holdfast.core.contract import Clock
from holdfast.core.errors import DatabaseDamaged, NotADatabase, SchemaTooNew, StoreClosed, StoreUnopenable
from holdfast.sessions.sqlite.connection import MEMORY, SqliteFile
from holdfast.sessions.sqlite.errors import UNBINDABLE, translate
from holdfast.sessions.sqlite.forks import note_closed, note_opened, refuse_forked
from holdfast.sessions.sqlite.open_files import OpenFiles
from holdfast.sessions.sqlite.schema import split_statements

T = TypeVar("T")

# Shorter than a shutdown may take. The lane retries a write that waits for another process.
BUSY_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FileFormat:
    """The application id in the header, the version of the schema, and the package with `schema.sql`."""

    application_id: int
    schema: int
    package: str


@cache
def load_queries(package: str) -> Any:  # noqa: ANN401 - aiosql's are dynamic
    """The named queries in the package of a provider."""
    source = files(package).joinpath("queries.sql")
    return aiosql.from_str(source.read_text(encoding="utf-8"), "sqlite3")


class ProviderFile:
    """Two connections to one file. Each serves one thread at a time; a forked child can't use them."""

    def __init__(self, path: str, kind: FileFormat, *, clock: Clock) -> None:
        self.queries = load_queries(kind.package)
        self._clock = clock
        self._file = SqliteFile(path, clock, BUSY_TIMEOUT_SECONDS)
        self._writing = threading.Lock()  # guards _writer
        self._reading = threading.Lock()  # guards _reader
        self._pid = os.getpid()
        self._writer: sqlite3.Connection | None = _open(self._file, kind)
        self._files = OpenFiles(self._writer, path)
        self._opened = note_opened(path)
        try:
            self._reader: sqlite3.Connection | None = self._file.connect(read_only=True)
        except sqlite3.Error as error:
            self._writer.close()
            note_closed(self._opened)
            raise translate(error, path, BUSY_TIMEOUT_SECONDS) from error

    @property
    def path(self) -> str:
        return self._file.path

    def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Run a read on one snapshot."""
        self._refuse_forked()
        with self._reading, self._translated():
            if self._reader is None:
                raise StoreClosed(self.path)
            self._reader.execute("begin")
            try:
                return work(self._reader)
            finally:
                if self._reader.in_transaction:
                    self._reader.execute("rollback")

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which is atomic for other processes."""
        self._refuse_forked()
        with self._writing, self._translated():
            connection = self._writer
            if connection is None:
                raise StoreClosed(self.path)
            self._file.patiently(lambda: connection.execute("begin immediate"))
            try:
                yield connection
                self._files.require()
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    def clean_log(self) -> None:
        """Checkpoint and truncate the WAL; while others read, a later checkpoint does it."""
        with self._writing, self._translated():
            if self._writer is not None:
                self._writer.execute("pragma wal_checkpoint(truncate)").fetchone()

    def close(self) -> None:
        """Close both connections after the running calls. May be called again."""
        if os.getpid() != self._pid:
            return
        with self._reading:
            if self._reader is not None:
                self._reader.close()
                self._reader = None
        with self._writing:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
                note_closed(self._opened)

    def _refuse_forked(self) -> None:
        # Tested before any lock: a lock that was held during the fork is never released in the child.
        if os.getpid() != self._pid:
            raise StoreClosed(self.path)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, *UNBINDABLE) as error:
            raise translate(error, self.path, self._file.patience) from error


def _open(file: SqliteFile, kind: FileFormat) -> sqlite3.Connection:
    """Open the writing connection; refuse a foreign file and create the schema."""
    if file.path == MEMORY:
        raise StoreUnopenable(file.path, "memory reads and writes on two connections, so it needs a file")
    prepare_file(Path(file.path))
    refuse_forked(file.path)
    try:
        connection = file.connect()
    except sqlite3.Error as error:
        raise translate(error, file.path, file.patience) from error
    try:
        file.patiently(lambda: _refuse_foreign(connection, file.path, kind))
        file.patiently(lambda: connection.execute("pragma journal_mode = wal").fetchone())
        # Freed pages are overwritten with zeros, so deleted text is not left in the file.
        connection.execute("pragma secure_delete = on")
        file.patiently(lambda: _migrate(connection, file.path, kind))
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, file.path, file.patience) from error
    except BaseException:
        connection.close()
        raise
    return connection


def prepare_file(path: Path) -> None:
    """Create the folder and an empty file that only its owner can read."""
    try:
        if path.is_dir():
            raise StoreUnopenable(str(path), "it is a folder, not a file")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as cause:
        raise StoreUnopenable(str(path), cause.strerror or str(cause)) from cause


def _refuse_foreign(connection: sqlite3.Connection, path: str, kind: FileFormat) -> None:
    tables = connection.execute("select count(*) from sqlite_schema").fetchone()[0]
    application = connection.execute("pragma application_id").fetchone()[0]
    if application != kind.application_id and (tables or application):
        raise NotADatabase(path)
    if tables:
        _refuse_newer(connection, path, kind)


def _refuse_newer(connection: sqlite3.Connection, path: str, kind: FileFormat) -> None:
    if connection.execute("select 1 from sqlite_schema where name = 'meta'").fetchone() is None:
        raise DatabaseDamaged(path, "its schema mark is missing")
    row = connection.execute("select value from meta where key = 'schema'").fetchone()
    if row is None:
        raise DatabaseDamaged(path, "its schema mark is missing")
    if not str(row[0]).isdigit() or int(row[0]) > kind.schema:
        raise SchemaTooNew(path, str(row[0]), str(kind.schema))


def create_tables(connection: sqlite3.Connection, package: str) -> None:
    """Run the `schema.sql` of a provider."""
    _run_script(connection, package, "schema.sql")


def _run_script(connection: sqlite3.Connection, package: str, name: str) -> None:
    source = files(package).joinpath(name)
    for statement in split_statements(source.read_text(encoding="utf-8")):
        connection.execute(statement)


def _upgrade(connection: sqlite3.Connection, kind: FileFormat) -> None:
    """Run `upgrade_N.sql` for each version up to the newest."""
    version = int(connection.execute("select value from meta where key = 'schema'").fetchone()[0])
    for following in range(version + 1, kind.schema + 1):
        _run_script(connection, kind.package, f"upgrade_{following}.sql")
        connection.execute("update meta set value = ? where key = 'schema'", (str(following),))


def _add_tables(connection: sqlite3.Connection, package: str) -> None:
    """Create the tables of `additions.sql`, which are not in every file yet."""
    if files(package).joinpath("additions.sql").is_file():
        _run_script(connection, package, "additions.sql")


def _migrate(connection: sqlite3.Connection, path: str, kind: FileFormat) -> None:
    """Create or upgrade the tables in one transaction, unless another process has done it."""
    connection.execute("begin immediate")
    try:
        if not connection.execute("select 1 from sqlite_schema").fetchone():
            create_tables(connection, kind.package)
            connection.execute("insert into meta (key, value) values ('schema', ?)", (str(kind.schema),))
        _refuse_foreign(connection, path, kind)
        _upgrade(connection, kind)
        _add_tables(connection, kind.package)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
