"""`LazyBegin`: a transaction that begins with its first statement, in the same round trip.

Most transactions have few statements, so a `begin` of its own is a good part of the time that they take when
the server is far away. psycopg's pipeline sends both at once, with the question for the transaction's mark
(`outcome.py`) between them; without it they go one by one.
"""

from typing import Any

import psycopg

from holdfast.sessions.postgres.outcome import MARK, TransactionMark, mark_of
from holdfast.sessions.postgres.schema import Connection


class LazyBegin:
    """A connection as one transaction sees it. `begin` is sent with the first statement."""

    def __init__(self, connection: Connection, begin: str, *, is_marked: bool) -> None:
        self._connection = connection
        self._begin: bytes | None = begin.encode()
        self._is_marked = is_marked
        self.mark: TransactionMark | None = None
        """By which the server knows the transaction, once it has begun."""

    @property
    def has_begun(self) -> bool:
        return self._begin is None

    @property
    def info(self) -> psycopg.ConnectionInfo:
        return self._connection.info

    def execute(self, query: Any, parameters: Any = None) -> psycopg.Cursor[Any]:  # noqa: ANN401 - as in psycopg
        if self._begin is None:
            return self._connection.execute(query, parameters)
        if not psycopg.Pipeline.is_supported():
            self._begin_alone()
            return self._connection.execute(query, parameters)
        begin, self._begin = self._begin, None
        with self._connection.pipeline():
            self._connection.execute(begin)
            marked = self._connection.execute(MARK) if self._is_marked else None
            answer = self._connection.execute(query, parameters)
        self.mark = mark_of(marked) if marked else None
        return answer

    def cursor(self) -> psycopg.Cursor[Any]:
        """For what a pipeline can't do, such as COPY."""
        self._begin_alone()
        return self._connection.cursor()

    def _begin_alone(self) -> None:
        if self._begin is not None:
            begin, self._begin = self._begin, None
            self._connection.execute(begin)
            self.mark = mark_of(self._connection.execute(MARK)) if self._is_marked else None
