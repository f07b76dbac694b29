"""Why a server refused a connection.

The driver tells a failed connection's reason in words only, and words are for people, in the server's
language. What the driver knows beside them is whether a password was wanted and sent. The server itself says
whether the database exists and whether this user may enter it, and, by a second attempt that can't succeed,
whether it refused this user alone. Each question is given up after so many seconds.
"""

import secrets
from enum import Enum

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import PGconn, Ping

from holdfast.core.errors import ConnectionRefused, HoldfastError, StoreUnopenable, StoreUnreachable
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.errors import words_of

MAINTENANCE = "postgres"
"""A database that servers have for such questions."""
MAY_CONNECT = (
    "select has_database_privilege(current_user, oid, 'CONNECT') from pg_database where datname = %s"
)
BARRED = "this user may not connect to the database; its owner allows it with: grant connect on database"
SHUT_OUT = "the server lets this user into another database, not into this one (see its pg_hba.conf)"


class Entry(Enum):
    """What the server says of the database that was not opened."""

    ABSENT = "there is no such database"
    BARRED = "the user has no right to connect to it"
    ALLOWED = "it is there, and the user has the right"
    UNKNOWN = "the server lets this user in nowhere"


def refusal(error: psycopg.Error, address: Address, seconds: int) -> HoldfastError:
    """The named error for a connection that was not made."""
    attempt = error.pgconn
    if attempt is not None and attempt.needs_password:
        return StoreUnopenable(address.location, "the server asks for a password and none was given")
    if not is_answering(address, seconds):
        return StoreUnreachable(address.location, words_of(error))
    entry = entry_of(error, address, seconds)
    if entry is Entry.ABSENT:
        return StoreUnopenable(
            address.location, "the server has no such database; create it first, with: createdb"
        )
    why = shut_out(entry, error, address, seconds)
    if why:
        return StoreUnopenable(address.location, why)
    if entry is Entry.ALLOWED or takes_nobody(error, address, seconds):
        return ConnectionRefused(address.location, words_of(error))
    if attempt is not None and attempt.used_password:
        return StoreUnopenable(
            address.location, f"the server refused this user or password ({words_of(error)})"
        )
    return StoreUnreachable(address.location, words_of(error))


def is_answering(address: Address, seconds: int) -> bool:
    """Whether a server runs there, if only to refuse."""
    conninfo = make_conninfo(address.conninfo, connect_timeout=seconds)
    return PGconn.ping(conninfo.encode()) in (Ping.OK, Ping.REJECT)


def entry_of(error: psycopg.Error, address: Address, seconds: int) -> Entry:
    """Asked on another database, which this user may be let into."""
    if error.pgconn is None:
        return Entry.UNKNOWN
    wanted = error.pgconn.db.decode()
    try:
        with psycopg.connect(address.conninfo, dbname=MAINTENANCE, connect_timeout=seconds) as connection:
            found = connection.execute(MAY_CONNECT, [wanted]).fetchone()
    except psycopg.Error:
        return Entry.UNKNOWN
    if found is None:
        return Entry.ABSENT
    return Entry.ALLOWED if found[0] else Entry.BARRED


def shut_out(entry: Entry, error: psycopg.Error, address: Address, seconds: int) -> str | None:
    """Why a user whom the server knows may not enter the database, if that is the reason."""
    if entry is Entry.BARRED:
        return BARRED
    attempt = error.pgconn
    if entry is not Entry.ALLOWED or attempt is None or attempt.used_password:
        return None
    # A rule about names refuses a stranger in words that differ by the name alone, before a password counts.
    stranger = secrets.token_hex(16)  # a server cuts a longer name off
    said, words = _refused_words(address, seconds, user=stranger), words_of(error)
    is_by_name = said is not None and said != words and said.replace(stranger, attempt.user.decode()) == words
    return f"{SHUT_OUT}: {words}" if is_by_name else None


def takes_nobody(error: psycopg.Error, address: Address, seconds: int) -> bool:
    """Whether a server that runs refused for a reason that lies neither in the user nor in the password."""
    nonsense = secrets.token_hex()
    if error.pgconn is not None and error.pgconn.used_password:
        # A password that is surely wrong is refused in other words: the first one was right. Both are given
        # outright, because the driver adds words about a password that it took from a file.
        given = _refused_words(address, seconds, password=error.pgconn.password.decode())
        return given != _refused_words(address, seconds, password=nonsense)
    # A stranger is refused in the same words: they are not about this user.
    return _refused_words(address, seconds, user=nonsense) == words_of(error)


def _refused_words(address: Address, seconds: int, **changed: str) -> str | None:
    """What is said to somebody else; None if that one is let in."""
    try:
        psycopg.connect(address.conninfo, connect_timeout=seconds, **changed).close()  # type: ignore[arg-type]
    except psycopg.Error as error:
        return words_of(error)
    return None
