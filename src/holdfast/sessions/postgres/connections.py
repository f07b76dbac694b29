"""Connections to the server: made, checked, lent out and taken back.

A connection that broke while it lay in the pool is found before anything is sent on it, so a restarted
server heals by itself. Waiting for a free connection, or for a server that is down, ends with the
configured patience.
"""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import psycopg
from psycopg.types.numeric import Int8Dumper
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from holdfast.core.contract import Clock
from holdfast.core.errors import ConnectionRefused, StoreBusy, StoreClosed, StoreUnreachable
from holdfast.sessions.migrations import all_steps
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.errors import gone, words_of
from holdfast.sessions.postgres.refusal import Entry, entry_of, is_answering, shut_out, takes_nobody
from holdfast.sessions.postgres.schema import Connection

ONE_WAIT = 0.5
LONGEST_CONNECT = 10
LONGEST_UNUSED = 60.0
"""The pool grows by the calls that find no connection free, and closes one that nobody needed for so long."""
LONGEST_IDLE = 10.0
"""How long a process may stand still inside a transaction: less than a lease, so that nobody who takes its
conversations over finds them locked."""
VERDICT_SECONDS = 30.0
"""How long a cause that was found serves all calls: the search signs in wrongly, and servers count that."""


@dataclass(frozen=True)
class _Verdict:
    """What a failure in these words comes from."""

    words: str
    found: float
    error: Callable[[], Exception]


class Connections:
    """The process's connections to one store."""

    def __init__(self, address: Address, patience: float, most: int, clock: Clock) -> None:
        self._address = address
        self._patience = patience
        self._clock = clock
        self._failure: psycopg.Error | None = None
        self._search = threading.Lock()  # guards _verdict; held while the cause is looked for
        self._verdict: _Verdict | None = None
        self._pool = ConnectionPool(
            address.conninfo,
            connection_class=_reporting_to(self._note),
            kwargs=connect_settings(patience),
            configure=lambda connection: configure(connection, patience),
            min_size=0,
            max_size=most,
            max_idle=LONGEST_UNUSED,
            # A failed attempt ends at once; whoever still waits asks for the next one.
            reconnect_timeout=0,
            num_workers=2,
            name="holdfast-postgres",
            open=True,
        )

    def _note(self, failure: psycopg.Error | None) -> None:
        """How the last attempt to connect ended."""
        self._failure = failure

    @contextmanager
    def borrowed(self) -> Iterator[Connection]:
        """A live connection, for one transaction."""
        connection = self._take()
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

    def close(self, timeout: float) -> None:
        """Close what is idle; a connection in use is closed when it comes back."""
        self._pool.close(timeout)

    def _take(self) -> Connection:
        deadline = self._clock.monotonic() + self._patience
        while True:
            left = deadline - self._clock.monotonic()
            try:
                connection: Connection = self._pool.getconn(timeout=max(0.001, min(left, ONE_WAIT)))
            except PoolClosed:
                raise StoreClosed(self._address.location) from None
            except PoolTimeout:
                if left > ONE_WAIT:
                    continue
                raise self._waited_in_vain() from None
            if not _broken(connection):
                return connection
            connection.close()
            self._pool.putconn(connection)

    def _waited_in_vain(self) -> Exception:
        failure = self._failure
        if failure is None:
            return StoreBusy(self._address.location, self._patience)
        words = words_of(failure)
        with self._search:
            verdict = self._verdict
            is_known = verdict is not None and verdict.words == words
            if verdict is None or not is_known or self._clock.monotonic() - verdict.found >= VERDICT_SECONDS:
                error = self._cause(failure, words)
                verdict = self._verdict = _Verdict(words, self._clock.monotonic(), error)
        return verdict.error()

    def _cause(self, failure: psycopg.Error, words: str) -> Callable[[], Exception]:
        """Ask the server; each call gets an error of its own."""
        address, seconds = self._address, connect_seconds(self._patience)
        location = address.location
        if not is_answering(address, seconds):
            return partial(StoreUnreachable, location, words)
        entry = entry_of(failure, address, seconds)
        if entry is Entry.ABSENT:
            return partial(gone, location, words)
        why = shut_out(entry, failure, address, seconds)
        if why is None and takes_nobody(failure, address, seconds):
            return partial(ConnectionRefused, location, words)
        return partial(StoreUnreachable, location, why or words)


def _reporting_to(note: Callable[[psycopg.Error | None], None]) -> type[Connection]:
    """A connection class that tells how each attempt ended; the pool would only log it."""

    class Reporting(psycopg.Connection[tuple[Any, ...]]):
        @classmethod
        def connect(cls, conninfo: str = "", **settings: Any) -> Self:  # noqa: ANN401 - as in psycopg
            try:
                connection = super().connect(conninfo, **settings)
            except psycopg.Error as error:
                note(error)
                raise
            note(None)
            return connection

    return Reporting


def connect_seconds(patience: float) -> int:
    """How long one attempt to connect may take; libpq takes two seconds at least."""
    return max(2, min(LONGEST_CONNECT, int(patience)))


def connect_settings(patience: float) -> dict[str, Any]:
    """How every connection is made."""
    return {
        "autocommit": True,
        "connect_timeout": connect_seconds(patience),
        # `holdfast store upgrade --plan` tells by it which programs are connected.
        "fallback_application_name": f"holdfast {all_steps('postgres')[-1].name}",
    }


def configure(connection: Connection, patience: float) -> None:
    """The settings that the promises need, whatever the server's defaults are."""
    # One type for every number: one prepared statement, and what is out of range is refused by name.
    connection.adapters.register_dumper(int, Int8Dumper)
    wait = max(1, int(patience * 1000))
    idle = int(LONGEST_IDLE * 1000)
    connection.execute(
        "select set_config('synchronous_commit', 'on', false),"
        " set_config('lock_timeout', %s, false),"
        " set_config('idle_in_transaction_session_timeout', %s, false),"
        " set_config('client_min_messages', 'warning', false),"
        " set_config('jit', 'off', false)",
        (str(wait), str(idle)),
    )


def _broken(connection: Connection) -> bool:
    """Whether the server has hung up: an idle connection has nothing to say unless it ends."""
    if connection.closed:
        return True
    watcher = select.poll()
    watcher.register(connection.fileno(), select.POLLIN)
    if not watcher.poll(0):
        return False
    try:
        connection.execute("")
    except psycopg.Error:
        return True
    return False
