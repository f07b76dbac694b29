"""The clock of a PostgreSQL store, moved by hand: for every process that has the store open."""

from typing import Protocol

from holdfast.sessions.contract import SECOND


class Connection(Protocol):
    """What is needed of a psycopg connection."""

    def execute(self, query: str, params: tuple[int, ...] | None = None) -> object: ...


class PostgresClock:
    """Puts a clock that stands still in place of the schema's `store_now()`.

    It works through a connection of its own, in autocommit, whose search path starts with the schema.
    """

    def __init__(self, connection: Connection, start: float = 1_700_000_000.0) -> None:
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
