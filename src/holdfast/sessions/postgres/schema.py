"""The schema brought up to date when a store is opened.

One transaction under an advisory lock, so that many processes may open a new database at once. Nothing is
changed in a database that has a newer schema, or that PostgreSQL is too old for.
"""

from typing import Any

import psycopg
from psycopg import errors as states

from holdfast.core.errors import StoreTooOld, StoreUnopenable
from holdfast.sessions.migrations import pending_steps

OLDEST_POSTGRES = 14
MIGRATION_LOCK = (
    "select pg_advisory_xact_lock(hashtextextended('holdfast migration of ' || current_schema(), 0))"
)
# What a migration meets in a schema whose tables belong to another program.
FOREIGN = (
    states.DuplicateTable,
    states.DuplicateFunction,
    states.DuplicateObject,
    states.UndefinedColumn,
    states.WrongObjectType,
)

Connection = psycopg.Connection[tuple[Any, ...]]


def migrate(connection: Connection, location: str) -> None:
    """Refuse what can't be used, then run the pending steps."""
    _refuse_unfit(connection, location)
    try:
        _run_pending_steps(connection, location)
    except FOREIGN as cause:
        raise StoreUnopenable(
            location,
            "its schema holds tables of another program. Create a schema for Holdfast and name it in "
            "the address: ?options=-csearch_path%3DSCHEMA",
        ) from cause


def _run_pending_steps(connection: Connection, location: str) -> None:
    if not pending_steps("postgres", _applied(connection), location):
        return
    with connection.transaction():
        connection.execute(MIGRATION_LOCK)
        for step in pending_steps("postgres", _applied(connection), location):
            connection.execute(step.sql.encode())
            connection.execute(
                "insert into meta (key, value) values ('schema', %s)"
                " on conflict (key) do update set value = excluded.value",
                (step.name,),
            )


def _refuse_unfit(connection: Connection, location: str) -> None:
    version = connection.info.server_version
    if version < OLDEST_POSTGRES * 10_000:
        raise StoreTooOld("PostgreSQL", f"{version // 10_000}.{version % 10_000}", str(OLDEST_POSTGRES))
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnopenable(location, f"the database's encoding is {encoding}, and must be UTF8")
    row = connection.execute("select current_schema()").fetchone()
    if row is None or row[0] is None:
        raise StoreUnopenable(location, "none of the schemas in its search_path exists")


def _applied(connection: Connection) -> str | None:
    """The last step that was run in the schema at hand."""
    # Read as rows: a lookup by name may answer from a cache that is older than the lock.
    there = connection.execute(
        "select 1 from pg_tables where schemaname = current_schema() and tablename = 'meta'"
    ).fetchone()
    if there is None:
        return None
    row = connection.execute("select value from meta where key = 'schema'").fetchone()
    return None if row is None else str(row[0])
