"""Many rows at once into PostgreSQL, and a database that refuses writes: see `bulk_dialect.py`."""

from collections.abc import Sequence

from psycopg import sql

from holdfast.sessions.bulk_dialect import WRITES_REFUSED
from holdfast.sessions.contract import Transaction
from holdfast.sessions.postgres.errors import MOVED_STATE

REFUSE = """
create or replace function {name}() returns trigger language plpgsql as $function$
declare
    reason text := (select value from meta where key = '{name}');
begin
    if reason is not null then
        raise exception '%', reason using errcode = '{code}';
    end if;
    return null;
end
$function$
"""


class PostgresBulk:
    """Triggers refuse, while a row of `meta` says so."""

    mark = "%s"

    def add_rows(
        self, tx: Transaction, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, columns))
        statement = sql.SQL("copy {} ({}) from stdin").format(sql.Identifier(table), names)
        with tx.connection.cursor() as cursor, cursor.copy(statement) as copy:
            for row in rows:
                copy.write_row(row)

    def run_many(self, tx: Transaction, statement: str, rows: Sequence[Sequence[object]]) -> None:
        with tx.connection.cursor() as cursor:
            cursor.executemany(statement.encode(), rows)

    def refuse_writes(self, tx: Transaction, tables: Sequence[str], reason: str) -> None:
        tx.connection.execute(REFUSE.format(name=WRITES_REFUSED, code=MOVED_STATE).encode())
        for table in tables:
            tx.connection.execute(
                f"create trigger {WRITES_REFUSED} before insert or update or delete on {table} "
                f"for each statement execute function {WRITES_REFUSED}()".encode()
            )
        tx.queries.set_meta(key=WRITES_REFUSED, value=reason)

    def allow_writes(self, tx: Transaction, tables: Sequence[str]) -> None:
        for table in tables:
            tx.connection.execute(f"drop trigger if exists {WRITES_REFUSED} on {table}".encode())
        tx.connection.execute(f"drop function if exists {WRITES_REFUSED}()".encode())
        tx.queries.forget_meta(key=WRITES_REFUSED)

    def continue_numbers(self, tx: Transaction, tables: Sequence[str]) -> None:
        for table in tables:
            found = tx.connection.execute("select pg_get_serial_sequence(%s, 'id')", (table,)).fetchone()
            if found[0] is not None:
                tx.connection.execute(
                    f"select setval(%s, (select coalesce(max(id), 0) + 1 from {table}), false)".encode(),  # noqa: S608
                    (found[0],),
                )
