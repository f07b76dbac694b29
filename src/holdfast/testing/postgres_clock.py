"""`PostgresClock`: the clock of a PostgreSQL store, set by a test for every process that uses the store."""

from typing import Protocol

from holdfast.sessions.contract import SECOND


class SqlConnection(Protocol):
    """The method of a psycopg connection that the clock uses."""

    def execute(self, query: str, params: tuple[int, ...] | None = None) -> object: ...


class PostgresClock:
    """Replaces the schema's `store_now()` by a clock that stands still.

    It needs its own connection, in autocommit, whose search path starts with the schema.
    """

    def __init__(self, connection: SqlConnection, start: float = 1_700_000_000.0) -> None:
        self._connection = connection
        self._start = int(start * SECOND)
        connection.execute("create table test_clock (now bigint not null)")
        connection.execute("insert into test_clock (now) values (%s)", (self._start,))
        connection.execute(
            "create or replace function store_now() returns bigint language sql volatile"
            " return (select now from test_clock)"
        )

    def reset(self) -> None:
        """Go back to the start."""
        self._connection.execute("update test_clock set now = %s", (self._start,))

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        self._connection.execute("update test_clock set now = now + %s", (round(seconds * SECOND),))
