"""`DeliveredKeys`: a durable record of the turns sent to a backend without idempotency keys.

A key is recorded before its turn is sent and marked as sent afterwards, both on disk. A turn that is
delivered again after a lost answer is not sent twice. A turn that was being sent when the process died has
the state `begun`, and the provider can look for it in the backend before it sends it again.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from holdfast.core.errors import StoreClosed
from holdfast.sessions.sqlite.open_files import OpenFiles

KeyState = Literal["new", "begun", "sent"]
# Only a turn whose delivery is open comes again, and far fewer than this are open at once.
MAX_KEYS = 50_000

SCHEMA = """
create table if not exists sent (
    no    integer primary key autoincrement,
    key   text not null unique,
    state text not null check (state in ('begun', 'sent'))
) strict
"""


class DeliveredKeys:
    """The keys of one provider in a small SQLite file, opened when first used. Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()  # guards the fields below; a connection serves one thread at a time
        self._connection: sqlite3.Connection | None = None
        self._opened: OpenFiles | None = None
        self._closed = False

    def begin(self, key: str) -> KeyState:
        """Record that a turn is about to be sent; returns its state before."""
        with self._transaction() as connection:
            found = connection.execute("select state from sent where key = ?", (key,)).fetchone()
            if found is None:
                connection.execute("insert into sent (key, state) values (?, 'begun')", (key,))
                return "new"
        return "sent" if found[0] == "sent" else "begun"

    def settle(self, key: str) -> None:
        """Mark a turn as sent."""
        with self._transaction() as connection:
            connection.execute("update sent set state = 'sent' where key = ?", (key,))
            connection.execute(
                "delete from sent where no <= (select max(no) from sent) - ? and state = 'sent'", (MAX_KEYS,)
            )

    def close(self) -> None:
        """Close the file for good. May be called again."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._open()
            connection.execute("begin immediate")
            try:
                yield connection
                if self._opened is not None:
                    self._opened.require()
                connection.execute("commit")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("rollback")
                raise

    def _open(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreClosed(str(self._file))
        if self._connection is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            opened = sqlite3.connect(self._file, timeout=5.0, isolation_level=None, check_same_thread=False)
            try:
                opened.execute("pragma journal_mode = wal")
                opened.execute("pragma synchronous = full")
                opened.execute(SCHEMA)
                self._opened = OpenFiles(opened, str(self._file))
            except BaseException:
                opened.close()  # the next use opens it again
                raise
            self._connection = opened
        return self._connection
