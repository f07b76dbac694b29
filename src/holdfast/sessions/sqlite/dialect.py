"""What is said to SQLite otherwise than to PostgreSQL: see `Dialect` in `contract.py`."""

from collections.abc import Callable, Sequence

from holdfast.sessions.contract import SECOND, Transaction
from holdfast.sessions.sqlite.bulk import SqliteBulk


class SqliteDialect:
    """Two short statements are cheaper here than a long one; nothing can come between them."""

    bulk = SqliteBulk()

    def match_expression(self, phrases: Sequence[Sequence[str]]) -> str:
        """All of these phrases, in the query language of FTS5: quoted, so nothing is an operator."""
        return " ".join('"' + " ".join(words) + '"' for words in phrases)

    def add_message(
        self,
        tx: Transaction,
        session_id: str,
        turn_id: str | None,
        columns: tuple[str, str | None, str | None],
    ) -> Callable[[], int | None]:
        # The hot path: aiosql's statements without its wrapper, and values by place, not by name.
        execute, queries = tx.connection.execute, tx.queries
        row = execute(queries.next_seq.sql, (session_id, turn_id, turn_id)).fetchone()
        if row is None:
            return _refused
        seq, last_active, now = row
        execute(queries.insert_message.sql, (session_id, seq, turn_id, *columns, now))
        # One that lies ahead was written before the clock was set back.
        if not now - SECOND < last_active <= now:
            execute(queries.touch_session.sql, {"id": session_id})
        return lambda: int(seq)

    def forget_words(self, tx: Transaction, root: str) -> None:
        tx.queries.unindex_conversation(root=root)


def _refused() -> None:
    return None
