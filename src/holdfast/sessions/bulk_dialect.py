"""`BulkDialect`: what moving a whole store needs of a database, and what each engine does in its own way."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.sessions.contract import Transaction

WRITES_REFUSED = "writes_refused"
"""The row of `meta` that has a database refuse writes, and the name of what looks at it there."""
MOVED = "moved: "
"""How the words begin with which SQLite refuses them: all its triggers have one code."""


class BulkDialect(Protocol):
    """What moving a whole store needs."""

    mark: str
    """What stands for a value in a statement."""

    def add_rows(
        self, tx: "Transaction", table: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        """Store rows as they are, with their numbers."""
        ...

    def run_many(self, tx: "Transaction", statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for each row of values."""
        ...

    def refuse_writes(self, tx: "Transaction", tables: Sequence[str], reason: str) -> None:
        """From this commit on every write to these tables, by any process, is refused with the reason."""
        ...

    def allow_writes(self, tx: "Transaction", tables: Sequence[str]) -> None:
        """The end of that."""
        ...

    def continue_numbers(self, tx: "Transaction", tables: Sequence[str]) -> None:
        """The next rows of these tables get numbers after the highest that is there."""
        ...


@contextmanager
def allowed_writes(tx: "Transaction") -> Iterator[None]:
    """While inside, this transaction may write to a store that refuses writes; all others may not."""
    reason = tx.queries.meta_value(key=WRITES_REFUSED)
    tx.queries.forget_meta(key=WRITES_REFUSED)
    yield
    tx.queries.set_meta(key=WRITES_REFUSED, value=reason)
