"""PostgreSQL as an `Engine`: each unit of work is one transaction on a pooled connection.

This file needs no driver, so that a missing one is said plainly. `transactions.py` runs the work,
`connections.py` keeps the connections, `schema.py` brings the schema up to date.
"""

import atexit
from collections.abc import Callable
from importlib import import_module
from typing import TypeVar

from holdfast.core.distribution import install_command
from holdfast.core.errors import RECOVER_A_SERVER, BackupRefused, StoreUnopenable
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.contract import Operation, Transaction

T = TypeVar("T")

DRIVER = ("psycopg", "psycopg_pool")
MOST_CONNECTIONS = 10
EXIT_SECONDS = 3.0
"""How long the end of a program may wait for a store that it did not close."""


class PostgresEngine:
    """A database on a server, for many processes and many hosts."""

    recovery = RECOVER_A_SERVER

    def __init__(self, url: str, *, patience: float, connections: int = MOST_CONNECTIONS) -> None:
        _require_driver()
        from holdfast.sessions.postgres.address import Address
        from holdfast.sessions.postgres.transactions import Transactions

        address = Address.parse(url)
        self.location = address.location
        self._pg_dump = address.pg_dump
        self._transactions = Transactions(address, patience=patience, connections=connections)
        # A program may end without closing its store; whoever uses the store was made later, and ends first.
        atexit.register(self._close_at_exit)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._transactions.write(work)

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        self._transactions.write(work)
        then()

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._transactions.read(work)

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        return await off_loop(pool, self._transactions.write, operation)

    def refresh_search(self) -> None:
        """Nothing to do: a message is in the word index with its commit."""

    def check(self) -> list[str]:
        return self.read(lambda tx: [row[0] for row in tx.queries.inconsistencies()])

    def backup(self, target: str) -> None:
        raise BackupRefused(
            f"no backup was written to {target}: a PostgreSQL store is backed up by the server's own "
            f"tool. Run: {self._pg_dump} --file={target}"
        )

    def close(self) -> None:
        atexit.unregister(self._close_at_exit)
        self._transactions.close()

    def _close_at_exit(self) -> None:
        self._transactions.close(EXIT_SECONDS)


def _require_driver() -> None:
    try:
        for module in DRIVER:
            import_module(module)
    except ImportError as cause:
        raise StoreUnopenable(
            "the PostgreSQL store",
            f"its driver is not installed. Install it with: {install_command('postgres')}",
        ) from cause
