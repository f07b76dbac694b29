"""PostgreSQL's SQLSTATE codes as Holdfast's errors. Decided by type and code, never by message text."""

import psycopg
from psycopg import errors as states

from holdfast.core.errors import (
    RECOVER_A_SERVER,
    ConstraintBroken,
    DatabaseDamaged,
    DiskFull,
    HoldfastError,
    InvalidInput,
    StatementCancelled,
    StoreBusy,
    StoreFault,
    StoreGone,
    StoreReadOnly,
    StoreUnopenable,
    StoreUnreachable,
)

RERUN = (states.SerializationFailure, states.DeadlockDetected)
"""The transaction was undone and asks to be run again."""

CONSTRAINTS = (
    states.UniqueViolation,
    states.ForeignKeyViolation,
    states.CheckViolation,
    states.NotNullViolation,
)
WAITED_TOO_LONG = (states.LockNotAvailable, *RERUN)
CANCELLED = ("57014", "25P04")
"""A statement or a whole transaction; drivers before PostgreSQL 17 have no name for the latter."""
GOING_AWAY = (
    states.AdminShutdown,
    states.CrashShutdown,
    states.CannotConnectNow,
    states.DatabaseDropped,
    states.IdleInTransactionSessionTimeout,
    states.IdleSessionTimeout,
    states.TooManyConnections,
)
GONE = (
    states.InvalidCatalogName,
    states.InvalidSchemaName,
    states.UndefinedTable,
    states.UndefinedFunction,
)
"""The database, its schema or its tables are not there (any more)."""
DAMAGED = (states.DataCorrupted, states.IndexCorrupted)
CONNECTION_CLASS = "08"
MOVED_STATE = "HF001"
"""The code with which the triggers of a store that is being moved refuse writes."""

RESTORE = "Restore the database and Holdfast goes on; or restart Holdfast, which makes its tables anew."
WRITE_A_SERVER = "It is a standby or set to read only: use the address of the primary server."


def connection_lost(error: psycopg.Error) -> bool:
    """Whether the server is gone, or sends this connection away."""
    if error.sqlstate is None:
        # The driver itself speaks: a socket that broke, or a connection that was never made.
        return isinstance(error, psycopg.OperationalError)
    return isinstance(error, GOING_AWAY) or error.sqlstate.startswith(CONNECTION_CLASS)


def translate(error: psycopg.Error, location: str, patience: float) -> HoldfastError:
    """The named error for what PostgreSQL or its driver reported."""
    words = words_of(error)
    if connection_lost(error):
        return StoreUnreachable(location, words)
    match error:
        case _ if isinstance(error, CONSTRAINTS):
            return ConstraintBroken(location, words)
        case _ if isinstance(error, WAITED_TOO_LONG):
            return StoreBusy(location, patience)
        case _ if error.sqlstate in CANCELLED:
            return StatementCancelled(location, words)
        case _ if isinstance(error, GONE):
            return gone(location, words)
        case states.InsufficientPrivilege():
            return StoreUnopenable(location, words)
        case _ if isinstance(error, DAMAGED):
            return DatabaseDamaged(location, words, RECOVER_A_SERVER)
        case states.DiskFull():
            return DiskFull(location)
        case _ if error.sqlstate == MOVED_STATE or isinstance(error, states.ReadOnlySqlTransaction):
            return StoreReadOnly(location, words if error.sqlstate == MOVED_STATE else WRITE_A_SERVER)
        case _:
            return _of_a_value(error, location, words)


def _of_a_value(error: psycopg.Error, location: str, words: str) -> HoldfastError:
    """What the server could not take as it was given, or a fault without a better name."""
    match error:
        case states.NumericValueOutOfRange():
            return InvalidInput(f"PostgreSQL can't hold this number: {words}")
        case psycopg.DataError() if error.sqlstate is None:
            return InvalidInput(f"PostgreSQL can't hold this value: {words}")
        case _:
            return StoreFault(location, f"{words} ({error.sqlstate or 'no code'})")


def gone(location: str, words: str) -> StoreGone:
    """The database was there when the store was opened."""
    return StoreGone(f"{location} has lost what Holdfast keeps there ({words})", RESTORE)


def words_of(error: psycopg.Error) -> str:
    """What was said, on one line, without the details that quote a row."""
    return " ".join((error.diag.message_primary or str(error)).split()).rstrip(".")
