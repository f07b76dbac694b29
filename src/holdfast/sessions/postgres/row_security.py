"""`RowSecurity`: the server leaves out what belongs to other scopes than the one that a read is limited to.

A limited read takes on a role that owns nothing, so that the policies of the schema (migration 0017) count
for it, and names the scope in a setting that lasts as long as its transaction. The role is made, and given
its rights, when the first read is limited: an installation with one user has none. Where that is refused,
reads go without this wall, and the log says once what the administrator of the server can do.
"""

import logging
import threading
from collections.abc import Callable

import psycopg
from psycopg import errors as states

from holdfast.sessions.postgres.schema import Connection

logger = logging.getLogger(__name__)

ROLE = "holdfast_account"
# Two programs that begin at once make it one after the other.
LOCK = "select pg_advisory_xact_lock(hashtextextended('holdfast role', 0))"
IS_THERE = "select 1 from pg_roles where rolname = %s"
LACKS = """
select c.relname from pg_class c
 where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relname <> all (%s)
   and not has_table_privilege(%s, c.oid, 'select')
 order by c.relname
"""
HIDDEN = [
    *("users", "user_tokens", "user_identities", "invitations", "audit_log", "stored_sizes"),
    *("chat_pairings", "chat_cursors"),
]
"""Tables that no limited read may see at all."""
BECOME = f"set local role {ROLE}"
NAME_SCOPE = "select set_config('holdfast.scope', %s, true)"

Opener = tuple[str, tuple[str, ...]]


class RowSecurity:
    """Of one program on one database."""

    def __init__(self, ask: Callable[[Callable[[Connection], bool]], bool]) -> None:
        """`ask` runs a function on a connection and returns its result."""
        self._ask = ask
        self._lock = threading.Lock()  # guards _is_on; held while the role is made, which happens once
        self._is_on: bool | None = None

    def openers(self, scope: str) -> tuple[Opener, ...]:
        """The statements with which a transaction begins whose reads are limited to the scope."""
        with self._lock:
            if self._is_on is None:
                self._is_on = self._ask(_set_up)
            is_on = self._is_on
        return ((NAME_SCOPE, (scope,)), (BECOME, ())) if is_on else ()


def _set_up(connection: Connection) -> bool:
    """Make the role with its rights as far as they are missing; whether this program can take it on."""
    try:
        with connection.transaction():
            connection.execute(LOCK)
            if connection.execute(IS_THERE, (ROLE,)).fetchone() is None:
                connection.execute(f"create role {ROLE} nologin".encode())
            _grant(connection)
            _take_on(connection)
    except (states.InsufficientPrivilege, states.UniqueViolation, states.DuplicateObject) as cause:
        logger.warning(
            "store.row_security_is_off",
            extra={
                "cause": str(cause).splitlines()[0],
                "next": f"an administrator of the server can run: create role {ROLE}; "
                f"grant {ROLE} to this program's role; the program then uses it after a restart",
            },
        )
        return False
    return True


def _grant(connection: Connection) -> None:
    connection.execute(
        psycopg.sql.SQL("grant usage on schema {} to {}").format(
            psycopg.sql.Identifier(_schema(connection)), psycopg.sql.Identifier(ROLE)
        )
    )
    for (table,) in connection.execute(LACKS, (HIDDEN, ROLE)).fetchall():
        connection.execute(
            psycopg.sql.SQL("grant select on {} to {}").format(
                psycopg.sql.Identifier(table), psycopg.sql.Identifier(ROLE)
            )
        )


def _schema(connection: Connection) -> str:
    row = connection.execute("select current_schema()").fetchone()
    return str(row[0]) if row else "public"


def _take_on(connection: Connection) -> None:
    """Try the role; a program that made it can give it to itself."""
    try:
        with connection.transaction():
            connection.execute(BECOME)
    except states.InsufficientPrivilege:
        connection.execute(f"grant {ROLE} to current_user".encode())
        connection.execute(BECOME)
    connection.execute("reset role")
