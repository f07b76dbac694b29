"""SQLite's error codes as Holdfast's errors. Decided by code, never by message text but our own triggers'."""

import sqlite3
from json import JSONDecodeError

from holdfast.core.errors import (
    ConstraintBroken,
    DatabaseDamaged,
    DiskFull,
    HoldfastError,
    InvalidInput,
    NotADatabase,
    StoreBusy,
    StoreFault,
    StoreReadOnly,
    StoreUnopenable,
)
from holdfast.sessions.bulk_dialect import MOVED
from holdfast.sessions.codec import Unreadable

PRIMARY_CODE = 0xFF
# Python raises these before SQLite sees the value: half a surrogate pair, a number past 64 bits.
UNBINDABLE = (UnicodeEncodeError, OverflowError)
# What was read is not what was stored: no JSON any more, or of another type.
UNREADABLE = (JSONDecodeError, Unreadable)


def error_code(error: Exception) -> int:
    """The primary result code, or 0 when the error didn't come from SQLite itself."""
    return getattr(error, "sqlite_errorcode", 0) & PRIMARY_CODE


def _constraint(location: str, words: str) -> HoldfastError:
    if words.startswith(MOVED):
        return StoreReadOnly(location, words.removeprefix(MOVED))
    return ConstraintBroken(location, words)


def is_busy(error: sqlite3.Error) -> bool:
    return error_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def translate(error: Exception, location: str, patience: float) -> HoldfastError:
    """The named error for what SQLite reported."""
    if isinstance(error, UNBINDABLE):
        return InvalidInput(f"{location} can't hold such a value: {error}")
    if isinstance(error, UNREADABLE):
        return DatabaseDamaged(location, str(error))
    match error_code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(location, patience)
        case sqlite3.SQLITE_FULL:
            return DiskFull(location)
        case sqlite3.SQLITE_CORRUPT:
            return DatabaseDamaged(location, str(error))
        case sqlite3.SQLITE_NOTADB:
            return NotADatabase(location)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreReadOnly(location)
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnopenable(location, str(error))
        case sqlite3.SQLITE_CONSTRAINT:
            return _constraint(location, str(error))
        case _:
            return StoreFault(location, f"{error} ({getattr(error, 'sqlite_errorname', 'no code')})")
