"""`StatementQueue`: a transaction whose statements travel together as far as their results allow.

A round trip is a good part of what a transaction takes when the server is far away, and of its CPU when it
is near. So what nobody waits for yet stays here: `begin`, the question for the transaction's mark
(`outcome.py`), and the statements that were given to `queue`. They go with the next statement that is waited
for, in one pipeline of psycopg; where that is not to be had they go one by one.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import psycopg

from holdfast.sessions.postgres.outcome import MARK, TransactionMark, mark_of
from holdfast.sessions.postgres.schema import Connection

T = TypeVar("T")

COMMIT = "commit"


class _Queued:
    """A statement that is sent later, and its answer once it is there."""

    def __init__(self, query: Any, parameters: Any = None) -> None:  # noqa: ANN401 - as in psycopg
        self.query = query
        self.parameters = parameters
        self.cursor: psycopg.Cursor[Any] | None = None


class StatementQueue:
    """A connection as one transaction sees it. `begin` is sent with the first statement."""

    def __init__(
        self,
        connection: Connection,
        begin: str,
        *,
        is_marked: bool,
        openers: Sequence[tuple[str, tuple[str, ...]]] = (),
    ) -> None:
        """`openers` are asked right after `begin`, with their parameters."""
        self._connection = connection
        self._queued = [_Queued(begin.encode()), *(_Queued(*each) for each in openers)]
        self._asked = _Queued(MARK) if is_marked else None
        if self._asked is not None:
            self._queued.append(self._asked)
        self._openers = len(self._queued)
        self.mark: TransactionMark | None = None
        """By which the server knows the transaction, once it has begun."""
        self.has_begun = False

    @property
    def info(self) -> psycopg.ConnectionInfo:
        return self._connection.info

    def execute(self, query: Any, parameters: Any = None) -> psycopg.Cursor[Any]:  # noqa: ANN401 - as in psycopg
        """Send what is queued and then this, and wait for its answer."""
        if not self._queued:
            return self._connection.execute(query, parameters)
        last = _Queued(query, parameters)
        self._queued.append(last)
        self._send()
        return _sent(last)

    def queue(self, query: Any, parameters: Any, take: Callable[[Any], T]) -> Callable[[], T]:  # noqa: ANN401
        """Send this with the next statement that is waited for.

        The function that is returned waits for the answer, and gives what `take` makes of its cursor.
        """
        queued = _Queued(query, parameters)
        self._queued.append(queued)

        def answer() -> T:
            if queued.cursor is None:
                self._send()
            return take(_sent(queued))

        return answer

    def cursor(self) -> psycopg.Cursor[Any]:
        """For what a pipeline can't do, such as COPY."""
        self._send()
        return self._connection.cursor()

    def begin(self) -> None:
        """Send what is queued, if anything was asked of this transaction and it has not begun."""
        if not self.has_begun and len(self._queued) > self._openers:
            self._send()

    def commit(self) -> str | None:
        """Send what is queued and COMMIT; returns what the server calls the end of the transaction."""
        if self._queued:
            return self.execute(COMMIT).statusmessage
        return self._connection.execute(COMMIT, prepare=False).statusmessage

    def _send(self) -> None:
        queued, self._queued = self._queued, []
        self.has_begun = True
        together = len(queued) > 1 and psycopg.Pipeline.is_supported()
        with self._connection.pipeline() if together else nullcontext():
            for each in queued:
                each.cursor = self._connection.execute(each.query, each.parameters)
        if self._asked is not None:
            self.mark, self._asked = mark_of(_sent(self._asked)), None


class SingleStatement:
    """A connection for one statement, which is a transaction by itself."""

    def __init__(self, connection: Connection) -> None:
        self._connection: Connection | None = connection

    def execute(self, query: Any, parameters: Any = None) -> psycopg.Cursor[Any]:  # noqa: ANN401 - as in psycopg
        connection, self._connection = self._connection, None
        if connection is None:
            raise RuntimeError("a second statement would see another moment than the first")
        return connection.execute(query, parameters)


def _sent(queued: _Queued) -> psycopg.Cursor[Any]:
    assert queued.cursor is not None  # noqa: S101 - it was sent
    return queued.cursor
