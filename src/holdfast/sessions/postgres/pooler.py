"""Refuses a pooler that gives each transaction another connection, as PgBouncer does in transaction mode.

The settings that the promises need are set once for each connection. Behind such a pooler they would be
lost, or meet another program. A pooler in session mode is as good as the server itself.
"""

import psycopg

from holdfast.core.errors import StoreUnopenable
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.schema import Connection

REASON = (
    "it is behind a pooler that gives each transaction another connection (PgBouncer with "
    "pool_mode=transaction or statement). Nothing was changed. Connect to PostgreSQL itself, or set "
    "pool_mode=session for this database"
)
LOOKS = 3
"""More than one, since two processes that take turns would otherwise meet the same connections again."""


def refuse_transaction_pooler(connection: Connection, address: Address, seconds: int) -> None:
    """Raise `StoreUnopenable` if connections of this address are shared between transactions."""
    serving = serving_process(connection)
    if serving == connection.info.backend_pid:
        return  # the server itself answers
    with psycopg.connect(address.conninfo, connect_timeout=seconds, autocommit=True) as second:
        # Both are open; a pooler that lends connections for a transaction lends the free one again. Where
        # others are busy it may lend the next: then the first connection meets another process, too.
        is_shared = serving_process(second) == serving
        if is_shared or any(serving_process(connection) != serving for _ in range(LOOKS)):
            raise StoreUnopenable(address.location, REASON)


def serving_process(connection: Connection) -> int:
    """The server's process behind this connection just now; a pooler names another when it connects."""
    row = connection.execute("select pg_backend_pid()").fetchone()
    return int(row[0]) if row else 0
