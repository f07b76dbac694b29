"""The schema brought up to date when a store is opened.

One transaction under an advisory lock, so that many processes may open a new database at once. Nothing is
changed in a database that has a newer schema, or that PostgreSQL is too old for.
"""

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import errors as states

from holdfast.core.errors import StoreTooOld, StoreUnopenable
from holdfast.sessions.migrations import SchemaMark, Step, pending_steps, steps_at_opening

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


def migrate(
    connection: Connection, location: str, *, steps: Sequence[Step] | None = None, is_last: bool = False
) -> None:
    """Refuse what can't be used, then run the pending steps; with `is_last` also what ends an upgrade."""
    refuse_unfit(connection, location)

    def to_run() -> list[Step]:
        mark = read_mark(connection)
        pending = pending_steps("postgres", mark, location, steps)
        return pending if is_last else steps_at_opening(pending, mark)

    try:
        _run_steps(connection, to_run)
    except FOREIGN as cause:
        raise StoreUnopenable(
            location,
            "its schema holds tables of another program. Create a schema for Holdfast and name it in "
            "the address: ?options=-csearch_path%3DSCHEMA",
        ) from cause


def _run_steps(connection: Connection, to_run: Callable[[], list[Step]]) -> None:
    if not to_run():
        return
    with connection.transaction():
        connection.execute(MIGRATION_LOCK)
        mark = read_mark(connection)
        for step in to_run():
            connection.execute(step.sql.encode())
            mark = mark.after(step)
            for row in mark.rows():
                connection.execute(
                    "insert into meta (key, value) values (%s, %s)"
                    " on conflict (key) do update set value = excluded.value",
                    row,
                )


def refuse_unfit(connection: Connection, location: str) -> None:
    """Raise where the server or the database can't hold a store."""
    version = connection.info.server_version
    if version < OLDEST_POSTGRES * 10_000:
        raise StoreTooOld("PostgreSQL", f"{version // 10_000}.{version % 10_000}", str(OLDEST_POSTGRES))
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreUnopenable(location, f"the database's encoding is {encoding}, and must be UTF8")
    row = connection.execute("select current_schema()").fetchone()
    if row is None or row[0] is None:
        raise StoreUnopenable(location, "none of the schemas in its search_path exists")


def read_mark(connection: Connection) -> SchemaMark:
    """What was run in the schema at hand."""
    # Read as rows: a lookup by name may answer from a cache that is older than the lock.
    there = connection.execute(
        "select 1 from pg_tables where schemaname = current_schema() and tablename = 'meta'"
    ).fetchone()
    return SchemaMark.of(dict(connection.execute("select key, value from meta")) if there else {})


def connected_programs(connection: Connection) -> dict[str, int]:
    """How many other connections each Holdfast program has to this database, by the name it gives itself."""
    rows = connection.execute(
        "select application_name, count(*) from pg_stat_activity where datname = current_database()"
        " and pid <> pg_backend_pid() and application_name like 'holdfast%' group by 1 order by 1"
    )
    return {str(name): int(count) for name, count in rows}
