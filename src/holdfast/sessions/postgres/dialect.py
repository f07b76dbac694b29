"""What is said to PostgreSQL otherwise than to SQLite: see `Dialect` in `contract.py`."""

from collections.abc import Callable, Sequence

from holdfast.sessions.contract import Transaction
from holdfast.sessions.postgres.bulk import PostgresBulk


class PostgresDialect:
    """One statement does it all here: each costs a way to the server and back."""

    bulk = PostgresBulk()

    def match_expression(self, phrases: Sequence[Sequence[str]]) -> str:
        """All of these phrases, for `to_tsquery`: quoted, so nothing is an operator."""
        return " & ".join(f"'{_quoted(words)}'" for words in phrases)

    def add_message(
        self,
        tx: Transaction,
        session_id: str,
        turn_id: str | None,
        columns: tuple[str, str | None, str | None],
    ) -> Callable[[], int | None]:
        role, content, extra = columns
        added: Callable[[], int | None] = tx.queries.ahead.insert_message(
            session_id=session_id, turn_id=turn_id, role=role, content=content, extra=extra
        )
        return added

    def forget_words(self, tx: Transaction, root: str) -> None:
        """The words stand in the messages' own rows here."""


def _quoted(words: Sequence[str]) -> str:
    return " ".join(words).replace("\\", " ").replace("'", " ")
