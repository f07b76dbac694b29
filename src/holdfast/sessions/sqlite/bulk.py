"""Many rows at once into SQLite, and a database that refuses writes: see `bulk_dialect.py`."""

from collections.abc import Sequence

from holdfast.sessions.bulk_dialect import MOVED, WRITES_REFUSED
from holdfast.sessions.contract import Transaction

CHANGES = ("insert", "update", "delete")


class SqliteBulk:
    """Triggers refuse, while a row of `meta` says so."""

    mark = "?"

    def add_rows(
        self, tx: Transaction, table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        self.run_many(tx, f"insert into {table} ({names}) values ({marks})", rows)  # noqa: S608

    def run_many(self, tx: Transaction, statement: str, rows: Sequence[Sequence[object]]) -> None:
        tx.connection.executemany(statement, rows)

    def refuse_writes(self, tx: Transaction, tables: Sequence[str], reason: str) -> None:
        said = f"{MOVED}{reason}".replace("'", "''")
        for table in tables:
            for change in CHANGES:
                tx.connection.execute(
                    f"create trigger {WRITES_REFUSED}_{change}_{table} before {change} on {table} "  # noqa: S608
                    f"when exists (select 1 from meta where key = '{WRITES_REFUSED}') "
                    f"begin select raise(abort, '{said}'); end"
                )
        tx.queries.set_meta(key=WRITES_REFUSED, value=reason)

    def allow_writes(self, tx: Transaction, tables: Sequence[str]) -> None:
        for table in tables:
            for change in CHANGES:
                tx.connection.execute(f"drop trigger if exists {WRITES_REFUSED}_{change}_{table}")
        tx.queries.forget_meta(key=WRITES_REFUSED)

    def continue_numbers(self, tx: Transaction, tables: Sequence[str]) -> None:
        """SQLite keeps the highest number by itself."""
