"""Why a server refused a connection.

The driver tells a failed connection's reason in words only. The SQLSTATE behind them is found by trying
once more with the protocol's trace on, which libpq writes into memory.
"""

import os
import re
import select

import psycopg
from psycopg import pq

from holdfast.core.clock import SystemClock
from holdfast.core.errors import HoldfastError, StoreUnopenable, StoreUnreachable
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.errors import words_of

LONGEST_ATTEMPT = 10.0
LONGEST_TRACE = 65_536
ANSWER = re.compile(rb'^[^\n]*\tB\t\d+\tErrorResponse\t[^\n]*? C "(\w{5})"', re.MULTILINE)

NO_SUCH_DATABASE = "3D000"
AUTHORIZATION_CLASS = "28"


def refusal(error: psycopg.Error, address: Address) -> HoldfastError:
    """The named error for a connection that was not made."""
    if error.pgconn is not None and error.pgconn.needs_password:
        return StoreUnopenable(address.location, "the server asks for a password and none was given")
    state = _sqlstate(address.conninfo) or ""
    if state == NO_SUCH_DATABASE:
        return StoreUnopenable(
            address.location, "the server has no such database; create it first, with: createdb"
        )
    if state.startswith(AUTHORIZATION_CLASS):
        return StoreUnopenable(
            address.location, f"the server refused this user or password ({words_of(error)})"
        )
    return StoreUnreachable(address.location, words_of(error))


def _sqlstate(conninfo: str) -> str | None:
    """The code of the server's refusal; None when it gave none, or can't be traced here."""
    if not hasattr(os, "memfd_create"):
        return None
    trace = os.memfd_create("holdfast-trace")
    attempt = pq.PGconn.connect_start(conninfo.encode())
    try:
        attempt.trace(trace)
        _finish(attempt)
        attempt.untrace()
        found = ANSWER.search(os.pread(trace, LONGEST_TRACE, 0))
        return None if found is None else found[1].decode()
    except psycopg.Error:
        return None
    finally:
        attempt.finish()
        os.close(trace)


def _finish(attempt: pq.abc.PGconn) -> None:
    """Let an attempt go on to its end, bounded in time."""
    clock = SystemClock()
    deadline = clock.monotonic() + LONGEST_ATTEMPT
    while attempt.status != pq.ConnStatus.BAD and clock.monotonic() < deadline:
        match attempt.connect_poll():
            case pq.PollingStatus.READING:
                select.select([attempt.socket], [], [], LONGEST_ATTEMPT)
            case pq.PollingStatus.WRITING:
                select.select([], [attempt.socket], [], LONGEST_ATTEMPT)
            case _:
                return
