"""Opening a SQLite file: ours, sound, and its schema brought up to date.

Nothing is written to a file that isn't ours, is damaged, or has a newer schema.
"""

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from holdfast.core.errors import DatabaseDamaged, NotADatabase, StoreTooOld, StoreUnopenable
from holdfast.sessions.migrations import SchemaMark, Step, pending_steps, steps_at_opening
from holdfast.sessions.sqlite.connection import SqliteFile
from holdfast.sessions.sqlite.errors import error_code, translate
from holdfast.sessions.sqlite.forks import refuse_forked

APPLICATION_ID = 0x484F4C44
OLDEST_SQLITE = (3, 37, 0)


def open_database(
    file: SqliteFile, *, steps: Sequence[Step] | None = None, is_last: bool = False
) -> sqlite3.Connection:
    """The writer's connection to a database that is ours and up to date. The rest is for `migrate`."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StoreTooOld("SQLite", sqlite3.sqlite_version, ".".join(map(str, OLDEST_SQLITE)))
    try:
        if not file.in_memory:
            _prepare_path(file.path, create=file.create)
            refuse_forked(file.path)
            _inspect(file, steps)
        connection = file.connect()
    except sqlite3.Error as error:
        raise translate(error, file.path, file.patience) from error
    try:
        file.patiently(lambda: _refuse_foreign(connection, file.path))
        file.patiently(lambda: _use_wal(connection, file.path))
        file.patiently(lambda: migrate(connection, file.path, steps=steps, is_last=is_last))
    except sqlite3.Error as error:
        connection.close()
        raise translate(error, file.path, file.patience) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare_path(path: str, *, create: bool) -> None:
    """Create the folder and an empty file that only its owner can read."""
    place = Path(path)
    try:
        if place.is_dir():
            raise StoreUnopenable(path, "it is a folder, not a file")
        if place.exists():
            if not place.is_file():
                raise StoreUnopenable(path, "it is not a regular file")
            # SQLite takes a file of one byte for an empty one.
            if place.stat().st_size == 1:
                raise NotADatabase(path)
            return
        if not create:
            raise StoreUnopenable(path, "there is no such file; the first conversation makes it")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            # Opening and closing a file that is there would drop this process's locks on it.
            os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except OSError as cause:
        raise StoreUnopenable(path, cause.strerror or str(cause)) from cause
    except ValueError as cause:
        raise StoreUnopenable(path, str(cause)) from cause


def _inspect(file: SqliteFile, steps: Sequence[Step] | None) -> None:
    """Refuse by a look that can't write: a writing connection would fold the file's log into it."""
    try:
        pending_steps("sqlite", inspect_mark(file), file.path, steps)
    except sqlite3.Error as error:
        # What needs a repair before it can be read is for the writing connection to judge.
        if error_code(error) not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            raise


def inspect_mark(file: SqliteFile) -> SchemaMark:
    """What the file says of its schema, by a look that can't write."""
    uri = f"file:{quote(os.fsencode(file.path))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=file.patience, isolation_level=None)
    try:
        _refuse_foreign(connection, file.path)
        return _read_mark(connection)
    finally:
        connection.close()


def _refuse_foreign(connection: sqlite3.Connection, path: str) -> None:
    """Somebody else's SQLite database is left alone."""
    tables = connection.execute("select count(*) from sqlite_schema").fetchone()[0]
    application = connection.execute("pragma application_id").fetchone()[0]
    if application != APPLICATION_ID and (tables or application):
        raise NotADatabase(path)


def _use_wal(connection: sqlite3.Connection, path: str) -> None:
    mode = connection.execute("pragma journal_mode = wal").fetchone()[0]
    if mode not in ("wal", "memory"):
        raise StoreUnopenable(path, "its file system has no shared memory, which WAL mode needs")


def migrate(
    connection: sqlite3.Connection, path: str, *, steps: Sequence[Step] | None = None, is_last: bool = False
) -> None:
    """Run the pending steps, all in one transaction: a crash leaves the old schema or the new one.

    With `is_last` also what ends an upgrade.
    """

    def to_run() -> list[Step]:
        mark = _read_mark(connection)
        pending = pending_steps("sqlite", mark, path, steps)
        return pending if is_last else steps_at_opening(pending, mark)

    if not to_run():
        return
    connection.execute("begin immediate")
    try:
        mark = _read_mark(connection)
        _refuse_unmarked(connection, mark.applied, path)
        for step in to_run():
            for statement in split_statements(step.sql):
                connection.execute(statement)
            mark = mark.after(step)
            connection.executemany(
                "insert into meta (key, value) values (?, ?)"
                " on conflict (key) do update set value = excluded.value",
                mark.rows(),
            )
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _refuse_unmarked(connection: sqlite3.Connection, applied: str | None, path: str) -> None:
    """Tables without a schema mark are the remains of a database."""
    if applied is None and connection.execute("select 1 from sqlite_schema").fetchone():
        raise DatabaseDamaged(path, "its schema mark is missing")


def _read_mark(connection: sqlite3.Connection) -> SchemaMark:
    has_meta = connection.execute("select 1 from sqlite_schema where name = 'meta'").fetchone()
    return SchemaMark.of(dict(connection.execute("select key, value from meta")) if has_meta else {})


def split_statements(script: str) -> list[str]:
    """Cut a script where SQLite itself sees a statement's end, so triggers stay whole."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current.strip())
            current = ""
    if current.strip():
        statements.append(current.strip())
    return statements
