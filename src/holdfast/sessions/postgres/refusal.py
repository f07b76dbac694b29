"""Why a server refused a connection.

The driver tells a failed connection's reason in words only, and words are for people, in the server's
language. What the driver knows beside them is whether a password was wanted and sent. The server itself says
whether the database exists, and, by a second attempt that can't succeed, whether it refused this user alone.
"""

import secrets

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from holdfast.core.errors import ConnectionRefused, HoldfastError, StoreUnopenable, StoreUnreachable
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.errors import words_of

MAINTENANCE = "postgres"
"""A database that servers have for such questions."""
SECONDS = 10
IS_THERE = "select exists (select from pg_database where datname = %s)"


def refusal(error: psycopg.Error, address: Address) -> HoldfastError:
    """The named error for a connection that was not made."""
    attempt = error.pgconn
    if attempt is not None and attempt.needs_password:
        return StoreUnopenable(address.location, "the server asks for a password and none was given")
    if not is_answering(address):
        return StoreUnreachable(address.location, words_of(error))
    exists = database_exists(error, address)
    if exists is False:
        return StoreUnopenable(
            address.location, "the server has no such database; create it first, with: createdb"
        )
    if exists or takes_nobody(error, address):
        return ConnectionRefused(address.location, words_of(error))
    if attempt is not None and attempt.used_password:
        return StoreUnopenable(
            address.location, f"the server refused this user or password ({words_of(error)})"
        )
    return StoreUnreachable(address.location, words_of(error))


def is_answering(address: Address) -> bool:
    """Whether a server runs there, if only to refuse."""
    conninfo = make_conninfo(address.conninfo, connect_timeout=SECONDS)
    return PGconn.ping(conninfo.encode()) in (Ping.OK, Ping.REJECT)


def takes_nobody(error: psycopg.Error, address: Address) -> bool:
    """Whether a server that runs refused for a reason that lies neither in the user nor in the password."""
    nonsense = secrets.token_hex()
    if error.pgconn is not None and error.pgconn.used_password:
        # A password that is surely wrong is refused in other words: the first one was right. Both are given
        # outright, because the driver adds words about a password that it took from a file.
        given = _refused_words(address, password=error.pgconn.password.decode())
        return given != _refused_words(address, password=nonsense)
    # A stranger is refused in the same words: they are not about this user.
    return _refused_words(address, user=nonsense) == words_of(error)


def _refused_words(address: Address, **changed: str) -> str | None:
    """What is said to somebody else; None if that one is let in."""
    try:
        psycopg.connect(address.conninfo, connect_timeout=SECONDS, **changed).close()  # type: ignore[arg-type]
    except psycopg.Error as error:
        return words_of(error)
    return None


def database_exists(error: psycopg.Error, address: Address) -> bool | None:
    """Whether the server has the database that was not opened; None when it lets this user in nowhere."""
    if error.pgconn is None:
        return None
    wanted = error.pgconn.db.decode()
    try:
        with psycopg.connect(address.conninfo, dbname=MAINTENANCE, connect_timeout=SECONDS) as connection:
            return connection.execute(IS_THERE, [wanted]).fetchone() == (True,)
    except psycopg.Error:
        return None
