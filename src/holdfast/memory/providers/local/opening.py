"""Opening the memory's own SQLite file: ours, sound, and of a schema this release knows.

Nothing is written to a file that isn't ours or has a newer schema. docs/decisions/0006 says why memory has
a file of its own.
"""

import contextlib
import os
import sqlite3
from importlib.resources import files
from pathlib import Path

from holdfast.core.errors import DatabaseDamaged, NotADatabase, SchemaTooNew, StoreUnopenable
from holdfast.sessions.sqlite.connection import MEMORY, SqliteFile
from holdfast.sessions.sqlite.errors import translate
from holdfast.sessions.sqlite.forks import refuse_forked
from holdfast.sessions.sqlite.opening import split_statements

APPLICATION_ID = 0x484F4C4D
SCHEMA = 1


def open_memory(file: SqliteFile) -> sqlite3.Connection:
    """The writing connection to a memory that is ours and up to date."""
    if file.path == MEMORY:
        raise StoreUnopenable(
            file.path, "the local memory reads and writes on two connections, so it needs a file"
        )
    _prepare(Path(file.path))
    refuse_forked(file.path)
    try:
        connection = file.connect()
    except sqlite3.Error as error:
        raise translate(error, file.path, file.patience) from error
    try:
        file.patiently(lambda: _refuse_foreign(connection, file.path))
        file.patiently(lambda: connection.execute("pragma journal_mode = wal").fetchone())
        # Freed pages are overwritten with zeros: what is forgotten does not linger in the file.
        connection.execute("pragma secure_delete = on")
        file.patiently(lambda: _migrate(connection, file.path))
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, file.path, file.patience) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(place: Path) -> None:
    """Create the folder and an empty file that only its owner can read."""
    try:
        if place.is_dir():
            raise StoreUnopenable(str(place), "it is a folder, not a file")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as cause:
        raise StoreUnopenable(str(place), cause.strerror or str(cause)) from cause


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    tables = connection.execute("select count(*) from sqlite_schema").fetchone()[0]
    application = connection.execute("pragma application_id").fetchone()[0]
    if application != APPLICATION_ID and (tables or application):
        raise NotADatabase(path)
    if tables:
        _refuse_newer(connection, path)


def _refuse_newer(connection: sqlite3.Connection, path: str) -> None:
    if connection.execute("select 1 from sqlite_schema where name = 'meta'").fetchone() is None:
        raise DatabaseDamaged(path, "its schema mark is missing")
    row = connection.execute("select value from meta where key = 'schema'").fetchone()
    if row is None:
        raise DatabaseDamaged(path, "its schema mark is missing")
    if not str(row[0]).isdigit() or int(row[0]) > SCHEMA:
        raise SchemaTooNew(path, str(row[0]), str(SCHEMA))


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in one transaction, unless another process was first."""
    connection.execute("begin immediate")
    try:
        if not connection.execute("select 1 from sqlite_schema").fetchone():
            source = files("holdfast.memory.providers.local").joinpath("schema.sql")
            for statement in split_statements(source.read_text(encoding="utf-8")):
                connection.execute(statement)
            connection.execute("insert into meta (key, value) values ('schema', ?)", (str(SCHEMA),))
        _refuse_foreign(connection, path)
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
