"""Connections for reading. Each read sees one snapshot and never waits for the writer (WAL)."""

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from queue import Empty, LifoQueue
from typing import Any, TypeVar

from holdfast.core.errors import StoreBusy, StoreClosed
from holdfast.sessions.contract import Transaction
from holdfast.sessions.sqlite.connection import SqliteFile
from holdfast.sessions.sqlite.dialect import SqliteDialect
from holdfast.sessions.sqlite.errors import UNBINDABLE, UNREADABLE, translate
from holdfast.sessions.sqlite.open_files import OpenFiles

T = TypeVar("T")

MOST_CONNECTIONS = 8


class ReaderPool:
    """A few connections, opened when first needed, shared by all reading threads."""

    def __init__(self, file: SqliteFile, files: OpenFiles, queries: Callable[[Any], Any]) -> None:
        self._file = file
        self._files = files
        self._queries = queries
        self._dialect = SqliteDialect()
        self._pid = os.getpid()
        self._closed = threading.Event()
        # None stands for a connection that is yet to be opened.
        self._idle: LifoQueue[sqlite3.Connection | None] = LifoQueue(MOST_CONNECTIONS)
        for _ in range(MOST_CONNECTIONS):
            self._idle.put(None)

    def read(self, work: Callable[[Transaction], T]) -> T:
        # A connection carried across a fork would undo the locks of its twin.
        if os.getpid() != self._pid:
            raise StoreClosed(self._file.path)
        try:
            connection = self._idle.get(timeout=self._file.patience)
        except Empty:
            raise StoreBusy(self._file.path, self._file.patience) from None
        try:
            if self._closed.is_set():
                raise StoreClosed(self._file.path)
            if connection is None:
                # Whatever else is at the path by now is not this database.
                self._files.require_file()
                connection = self._file.connect(read_only=True)
            try:
                connection.execute("begin")
                return work(Transaction(connection, self._queries(connection), self._dialect, alone=True))
            finally:
                if connection.in_transaction:
                    connection.execute("rollback")
        except (sqlite3.Error, *UNBINDABLE, *UNREADABLE) as error:
            raise translate(error, self._file.path, self._file.patience) from error
        finally:
            if connection is not None and connection.in_transaction:
                # Whatever interrupted the clean-up: the next reader starts afresh.
                connection.close()
                connection = None
            self._idle.put(connection)
            if self._closed.is_set():
                self.close()

    def close(self) -> None:
        """Close idle connections; one in use is closed by its reader when it is done."""
        if os.getpid() != self._pid:
            return
        self._closed.set()
        idle: list[sqlite3.Connection | None] = []
        with contextlib.suppress(Empty):
            while True:
                idle.append(self._idle.get_nowait())
        for connection in idle:
            if connection is not None:
                connection.close()
            self._idle.put(None)
