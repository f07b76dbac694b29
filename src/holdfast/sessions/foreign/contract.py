"""What a reader of another agent's store gives: conversations in Holdfast's words, and what it left out.

A reader opens the other store read-only and changes nothing in it. `importer.py` stores what it gives.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput

MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class ForeignSession:
    """One transcript. Times are in microseconds since 1970."""

    id: str
    """The id in Holdfast, made from the other one, so that a second import finds it."""
    started: int
    messages: list[tuple[int, Message]]
    """Each with its time, oldest first."""


@dataclass(frozen=True, slots=True)
class ForeignConversation:
    """A session and its continuations, oldest first."""

    name: str
    """What the other store calls it, for a person to read."""
    source: str
    sessions: list[ForeignSession]
    title: str | None = None


@dataclass(slots=True)
class ForeignStore:
    """Everything that was read. `rows` counts the messages of the other store, also those left out."""

    conversations: list[ForeignConversation] = field(default_factory=list)
    rows: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    """Rows that became no message, counted by the reason."""
    empty: int = 0
    """Sessions without any message to import."""
    unreadable: list[str] = field(default_factory=list)
    """Conversations that can't be read, each with the reason."""

    def leave_out(self, reason: str, rows: int = 1) -> None:
        """Count rows that are not imported."""
        self.left_out[reason] = self.left_out.get(reason, 0) + rows


@contextmanager
def opened(path: Path, tables: tuple[str, ...], program: str) -> Iterator[sqlite3.Connection]:
    """The other store, read-only; raises `InvalidInput` when it is none of that program."""
    if not path.is_file():
        raise InvalidInput(f"there is no file {path}; nothing was imported")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            known = {
                row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")
            }
            if missing := [table for table in tables if table not in known]:
                raise InvalidInput(
                    f"{path} is no store of {program}: it has no table {', '.join(missing)}; "
                    "nothing was imported"
                )
            yield connection
    except sqlite3.Error as cause:
        raise InvalidInput(
            f"{path} can't be read as a store of {program}: {cause}; nothing was imported"
        ) from cause
