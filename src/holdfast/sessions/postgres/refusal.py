"""Why a server refused a connection.

The driver tells a failed connection's reason in words only, and words are for people. What the driver knows
beside them is whether a password was wanted and sent; the server itself says whether the database exists.
"""

import psycopg

from holdfast.core.errors import HoldfastError, StoreUnopenable, StoreUnreachable
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
    exists = database_exists(error, address)
    if exists is False:
        return StoreUnopenable(
            address.location, "the server has no such database; create it first, with: createdb"
        )
    if exists is None and attempt is not None and attempt.used_password:
        return StoreUnopenable(
            address.location, f"the server refused this user or password ({words_of(error)})"
        )
    return StoreUnreachable(address.location, words_of(error))


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
