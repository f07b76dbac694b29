"""`DeliveredKeys`: a durable record of what was sent to a backend that knows no keys.

A key is noted before its turn is sent and settled afterwards, both on disk. So a turn that comes again
because an answer got lost is not sent twice; one that was being sent when the process died is told apart,
and a provider may look for it in its backend before it sends it again.
"""

import sqlite3
import threading
from pathlib import Path
from typing import Literal

from holdfast.core.errors import StoreClosed

Known = Literal["new", "begun", "sent"]
# A key comes again only while its delivery is open; far fewer than this are open at once.
MOST_KEYS = 50_000

SCHEMA = """
create table if not exists sent (
    no    integer primary key autoincrement,
    key   text not null unique,
    state text not null check (state in ('begun', 'sent'))
) strict
"""


class DeliveredKeys:
    """The keys of one provider, in a small file of its own. Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()  # guards _connection, which serves one thread at a time
        file.parent.mkdir(parents=True, exist_ok=True)
        self._connection: sqlite3.Connection | None = sqlite3.connect(
            file, timeout=5.0, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        self._connection.execute(SCHEMA)

    def begin(self, key: str) -> Known:
        """Note that a turn is about to be sent; says what was known of it before."""
        with self._lock:
            found = self._open().execute("select state from sent where key = ?", (key,)).fetchone()
            if found is None:
                self._open().execute("insert into sent (key, state) values (?, 'begun')", (key,))
                return "new"
        return "sent" if found[0] == "sent" else "begun"

    def settle(self, key: str) -> None:
        """The backend has it."""
        with self._lock:
            self._open().execute("update sent set state = 'sent' where key = ?", (key,))
            self._open().execute(
                "delete from sent where no <= (select max(no) from sent) - ? and state = 'sent'", (MOST_KEYS,)
            )

    def close(self) -> None:
        """Let go of the file. May be called again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreClosed(str(self._file))
        return self._connection
