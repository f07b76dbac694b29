"""Connections to a SQLite file, with the pragmas that the promises need, and patience for others.

`schema.py` decides whether a file may be opened at all.
"""

import os
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.sessions.contract import SECOND
from holdfast.sessions.sqlite.errors import is_busy

T = TypeVar("T")

MEMORY = ":memory:"
FIRST_PAUSE, LONGEST_PAUSE = 0.0005, 0.02
LARGEST_IDLE_WAL = 64 * 1024 * 1024


@dataclass(frozen=True)
class SqliteFile:
    """Where the database is, whose clock it uses, and how long it waits for other processes."""

    path: str
    clock: Clock
    patience: float
    create: bool = True

    @property
    def in_memory(self) -> bool:
        return self.path == MEMORY

    def connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        """A connection with the pragmas that the promises need."""
        connection = sqlite3.connect(
            # Opening makes no file: one that was deleted stays deleted.
            self.path if self.in_memory else f"file:{quote(os.fsencode(self.path))}?mode=rw",
            uri=not self.in_memory,
            timeout=self.patience,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=200,
        )
        clock = self.clock
        try:
            connection.create_function("store_now", 0, lambda: int(clock.now() * SECOND))
            connection.execute("pragma foreign_keys = on")
            # Reads the schema, so it may have to wait for another process that recovers the file.
            connection.execute("pragma synchronous = full")
            connection.execute("pragma temp_store = memory")
            connection.execute(f"pragma journal_size_limit = {LARGEST_IDLE_WAL}")
            if read_only:
                connection.execute("pragma query_only = on")
            else:
                # The writer waits in `patiently`, in shorter steps than SQLite's own.
                connection.execute("pragma busy_timeout = 0")
        except BaseException:
            connection.close()
            raise
        return connection

    def patiently(self, attempt: Callable[[], T]) -> T:
        """Try until another process lets go of the file, at most for the configured patience."""
        clock = SystemClock()
        deadline = clock.monotonic() + self.patience
        pause = FIRST_PAUSE
        while True:
            try:
                return attempt()
            except sqlite3.OperationalError as error:
                if not is_busy(error) or clock.monotonic() >= deadline:
                    raise
            # Nobody sets it; most attempts succeed at once and need none.
            clock.wait(threading.Event(), pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)


def settled_path(path: str) -> str:
    """The same file for every later connection, wherever the process has gone by then."""
    return path if path == MEMORY else os.path.abspath(path)  # noqa: PTH100 - keeps links
