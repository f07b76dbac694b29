"""PostgreSQL as an `Engine`: each unit of work is one transaction on a pooled connection.

Changes of one session stand in line at its row (`lock_session`); sessions don't wait for each other. Work
that was surely not committed (a deadlock, a connection lost before COMMIT) is run again within the
patience. After a COMMIT without an answer the server is asked what became of it (`outcome.py`).
`connections.py` keeps the connections, `schema.py` brings the schema up to date.
"""

import atexit
import os
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

import psycopg

from holdfast.core.clock import SystemClock
from holdfast.core.errors import (
    RECOVER_A_SERVER,
    BackupRefused,
    ConnectionRefused,
    HoldfastError,
    InvalidInput,
    OutcomeUnknown,
    StoreClosed,
    StoreFailure,
    StoreFault,
    StoreUnopenable,
)
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.contract import OWNER, Operation, Transaction
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.connections import (
    LONGEST_CONNECT,
    Connections,
    configure,
    connect_seconds,
    connect_settings,
)
from holdfast.sessions.postgres.dialect import PostgresDialect
from holdfast.sessions.postgres.errors import GONE, RERUN, connection_lost, translate, words_of
from holdfast.sessions.postgres.notifications import PostgresNotifications
from holdfast.sessions.postgres.outcome import Outcome, TransactionMark, outcome_of
from holdfast.sessions.postgres.pooler import refuse_transaction_pooler
from holdfast.sessions.postgres.refusal import refusal
from holdfast.sessions.postgres.row_security import RowSecurity
from holdfast.sessions.postgres.schema import Connection, migrate
from holdfast.sessions.postgres.statement_queue import COMMIT, SingleStatement, StatementQueue
from holdfast.sessions.queries import load_queries
from holdfast.sessions.read_limit import read_limit

T = TypeVar("T")

WRITE = "begin isolation level read committed"
READ = "begin isolation level repeatable read, read only"
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 0.5
UNHEARD = frozenset(
    (
        *("renew_lease", "claim_deliveries", "extend_claim", "free_dead_claims", "mark_delivered"),
        *("record_usage", "measure_storage"),
    )
)
"""Operations that other processes need not hear of: nobody there does anything about them."""
CLOSING = 5.0
EXIT_SECONDS = 3.0
"""How long the end of a program may wait for a store that it did not close."""


class _Undone(Exception):
    """The transaction is surely gone without a trace; its cause says why."""

    def __init__(self, error: psycopg.Error) -> None:
        super().__init__()
        self.error = error


class _Unanswered(Exception):
    """COMMIT was sent and got no answer. `result` is what the work gave, if it was committed."""

    def __init__(self, mark: TransactionMark | None, result: object, error: psycopg.Error) -> None:
        super().__init__()
        self.mark = mark
        self.result = result
        self.error = error


class PostgresEngine:
    """A database on a server, for many processes and many hosts."""

    recovery = RECOVER_A_SERVER
    is_shared = True

    def __init__(self, url: str, *, patience: float, connections: int = 10) -> None:
        address = Address.parse(url)
        self.location = address.location
        self._pg_dump = address.pg_dump
        self._patience = patience
        self._clock = SystemClock()
        self._queries = load_queries("postgres", "psycopg")
        self._dialect = PostgresDialect()
        prepared(address, patience, lambda connection: migrate(connection, address.location))
        self._connections = Connections(address, patience, connections, self._clock)
        self._row_security = RowSecurity(self._with_connection)
        self.notifications = PostgresNotifications(address, patience)
        self._pid = os.getpid()
        self._change = threading.Condition()  # guards _running and _closed
        self._running = 0
        self._closed = False
        # A program may end without closing its store; whoever uses the store was made later, and ends first.
        atexit.register(self._close_at_exit)

    def write(self, work: Callable[[Transaction], T]) -> T:
        result = self._run(lambda: self._once(WRITE, work))
        if not (isinstance(work, Operation) and work.name in UNHEARD):
            self.notifications.changed()
        return result

    def write_later(self, work: Callable[[Transaction], object], then: Callable[[], object]) -> None:
        self.write(work)
        then()

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._run(lambda: self._once(READ, work))

    def read_once(self, work: Callable[[Transaction], T]) -> T:
        if read_limit() != OWNER:  # it takes a transaction to limit a read
            return self.read(work)
        return self._run(lambda: self._one_statement(work))

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        return await off_loop(pool, self.write, operation)

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
        self._close(self._patience, CLOSING)

    def _close_at_exit(self) -> None:
        self._close(EXIT_SECONDS, EXIT_SECONDS)

    def _close(self, patience: float, closing: float) -> None:
        """Wait for the calls in progress, at most for the patience, then let go."""
        if os.getpid() != self._pid:
            return
        with self._change:
            self._closed = True
            self._change.wait_for(lambda: self._running == 0, patience)
        self.notifications.close(closing)
        self._connections.close(closing)

    def _run(self, attempt: Callable[[], T]) -> T:
        self._enter()
        try:
            return self._patiently(attempt)
        except psycopg.Error as error:
            raise translate(error, self.location, self._patience) from error
        except UnicodeEncodeError as error:
            raise InvalidInput(f"text must be whole Unicode: {error.reason}") from error
        finally:
            self._leave()

    def _enter(self) -> None:
        # A forked child shares the parent's sockets and must not speak on them. Asked before the lock is
        # touched: it may have been held when the process was forked.
        if os.getpid() != self._pid:
            raise StoreClosed(self.location)
        with self._change:
            if self._closed:
                raise StoreClosed(self.location)
            self._running += 1

    def _leave(self) -> None:
        with self._change:
            self._running -= 1
            self._change.notify_all()

    def _patiently(self, attempt: Callable[[], T]) -> T:
        deadline = self._clock.monotonic() + self._patience
        never = threading.Event()
        pause = FIRST_PAUSE
        while True:
            try:
                try:
                    return attempt()
                except _Unanswered as unanswered:
                    self._find_out(unanswered)
                    return cast("T", unanswered.result)
            except _Undone as undone:
                if self._clock.monotonic() + pause >= deadline:
                    raise undone.error from undone.error.__cause__
            # Two that met in a deadlock come back at different moments.
            self._clock.wait(never, pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            pause = min(pause * 2, LONGEST_PAUSE)

    def _once(self, begin: str, work: Callable[[Transaction], T]) -> T:
        limit = self._row_security.openers(read_limit()) if begin == READ and read_limit() != OWNER else ()
        with self._connections.borrowed() as connection:
            queue = StatementQueue(connection, begin, is_marked=begin != READ, openers=limit)
            try:
                result = work(Transaction(queue, self._queries(queue), self._dialect, alone=False))
                # COMMIT goes on its way when the transaction's mark is known: its outcome can be found out.
                queue.begin()
            except psycopg.Error as error:
                _undo(connection)
                if isinstance(error, RERUN) or connection_lost(error):
                    raise _Undone(error) from error
                raise
            except BaseException:
                _undo(connection)
                raise
            if not queue.has_begun:
                return result
            if begin == READ:
                # Not a rollback: after one psycopg forgets the statements that it has prepared.
                _end_read(connection)
            else:
                self._commit(connection, queue, result)
            return result

    def _with_connection(self, work: Callable[[Connection], bool]) -> bool:
        with self._connections.borrowed() as connection:
            return work(connection)

    def _one_statement(self, work: Callable[[Transaction], T]) -> T:
        with self._connections.borrowed() as connection:
            single = SingleStatement(connection)
            try:
                return work(Transaction(single, self._queries(single), self._dialect, alone=False))
            except psycopg.Error as error:
                if isinstance(error, RERUN) or connection_lost(error):
                    raise _Undone(error) from error
                raise

    def _commit(self, connection: Connection, queue: StatementQueue, result: object) -> None:
        try:
            answer = queue.commit()
        except psycopg.Error as error:
            if connection_lost(error):
                raise _Unanswered(queue.mark, result, error) from error
            _undo(connection)
            if isinstance(error, RERUN):
                raise _Undone(error) from error
            raise
        if answer != "COMMIT":
            # A statement failed and the work went on as if it had not.
            raise StoreFault(self.location, f"the transaction ended with {answer}")

    def _find_out(self, unanswered: _Unanswered) -> None:
        """Return if it was committed; raises `_Undone` if not, `OutcomeUnknown` if nobody can tell."""
        deadline = self._clock.monotonic() + self._patience
        never, outcome = threading.Event(), "open" if unanswered.mark else "unknown"
        while outcome == "open" and self._clock.monotonic() < deadline:
            outcome = self._ask_for(unanswered.mark)
            if outcome == "open":
                self._clock.wait(never, LONGEST_PAUSE)
        if outcome == "undone":
            raise _Undone(unanswered.error) from unanswered.error
        if outcome != "committed":
            raise OutcomeUnknown(self.location, words_of(unanswered.error)) from unanswered.error

    def _ask_for(self, mark: TransactionMark | None) -> Outcome:
        if mark is None:
            return "unknown"
        try:
            with self._connections.borrowed() as connection:
                return outcome_of(connection, mark)
        except (psycopg.OperationalError, StoreFailure):
            return "open"  # the server is on its way back


def prepared(address: Address, patience: float, work: Callable[[Connection], T]) -> T:
    """Connect once in the open, so that what is wrong is said at once, and do what comes before all else."""
    connection = _connected(address, patience)
    try:
        with connection:
            refuse_transaction_pooler(connection, address, LONGEST_CONNECT)
            configure(connection, patience)
            return work(connection)
    except GONE as error:
        raise StoreUnopenable(address.location, words_of(error)) from error
    except psycopg.Error as error:
        raise translate(error, address.location, patience) from error


def _connected(address: Address, patience: float) -> Connection:
    """Connect; wait within the patience for a server that runs and takes nobody just now."""
    clock, never = SystemClock(), threading.Event()
    deadline = clock.monotonic() + patience
    why: HoldfastError | None = None
    while True:
        try:
            return psycopg.connect(address.conninfo, **connect_settings(patience))
        except psycopg.Error as error:
            is_over = clock.monotonic() + LONGEST_PAUSE >= deadline
            if why is None or is_over:
                why = refusal(error, address, connect_seconds(patience))
            if is_over or not isinstance(why, ConnectionRefused):
                raise why from error
        clock.wait(never, LONGEST_PAUSE)


def _end_read(connection: Connection) -> None:
    with suppress(psycopg.Error):  # what was read counts; a broken connection is found when it is taken next
        connection.execute(COMMIT, prepare=False)


def _undo(connection: Connection) -> None:
    try:
        connection.execute("rollback")
    except psycopg.Error:
        # The server undoes what a closed connection leaves behind.
        connection.close()
