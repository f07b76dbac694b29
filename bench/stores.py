"""What is compared: Holdfast's store, by its two ways to append, and SQLite with nothing around it."""

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.core.contract import Message
from holdfast.sessions import SessionDB

HITS = 20
ABSENT = "qqqqxxxx"
"""A word that stands in no text."""
SCHEMA = """
create table messages (
    id integer primary key, session text not null, seq integer not null, role text not null,
    content text not null, created integer not null
);
create unique index message_place on messages (session, seq);
create virtual table message_index using fts5 (
    content, content = 'messages', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
create trigger message_indexed after insert on messages begin
    insert into message_index (rowid, content) values (new.id, new.content);
end;
"""
INSERT = "insert into messages (session, seq, role, content, created) values (?, ?, ?, ?, ?)"
LOAD = "select role, content from messages where session = ? order by seq"
SEARCH = """
select m.session, m.seq, m.role, m.created, snippet(message_index, 0, char(2), char(3), '…', 24)
  from message_index join messages m on m.id = message_index.rowid
 where message_index match ? order by message_index.rank limit ?
"""


class Appender(Protocol):
    """One way to append."""

    def start(self, session: str) -> None:
        """Make the session that later calls name."""
        ...

    def append(self, session: str, message: Message) -> None:
        """One message; on disk when the call returns."""
        ...

    def catch_up(self) -> None:
        """Do all the work that appending has put off. It belongs to the price of an append."""
        ...


class Store(Appender, Protocol):
    """A database with everything that is measured."""

    path: Path

    def fill(self, session: str, messages: Sequence[Message]) -> None:
        """Many messages in one transaction; only to get to a size, not measured."""
        ...

    def load(self, session: str) -> int:
        """Read a whole session as the dictionaries a model takes; returns their number."""
        ...

    def search(self, query: str) -> int:
        """The best hits with their snippets; returns their number."""
        ...

    def close(self) -> None: ...


class Control:
    """Bare `sqlite3`: WAL, synchronous=FULL, one external-content index, one commit per append."""

    def __init__(self, path: Path) -> None:
        self.path = path
        fresh = not path.exists()
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.execute("pragma synchronous = full")
        if fresh:
            self._connection.executescript(SCHEMA)
        self._next: dict[str, int] = dict(
            self._connection.execute("select session, max(seq) + 1 from messages group by session")
        )

    def start(self, session: str) -> None:
        self._next[session] = 0

    def fill(self, session: str, messages: Sequence[Message]) -> None:
        first, now = self._next[session], time.time_ns() // 1000
        self._connection.execute("begin")
        self._connection.executemany(
            INSERT,
            (
                (session, first + place, message["role"], message["content"], now)
                for place, message in enumerate(messages)
            ),
        )
        self._connection.execute("commit")
        self._next[session] = first + len(messages)

    def append(self, session: str, message: Message) -> None:
        seq = self._next[session]
        row = (session, seq, message["role"], message["content"], time.time_ns() // 1000)
        self._connection.execute(INSERT, row)
        self._next[session] = seq + 1

    def catch_up(self) -> None:
        """Nothing is put off: the trigger indexes at once."""

    def load(self, session: str) -> int:
        rows = self._connection.execute(LOAD, (session,))
        return len([{"role": role, "content": content} for role, content in rows])

    def search(self, query: str) -> int:
        return len(self._connection.execute(SEARCH, (query, HITS)).fetchall())

    def close(self) -> None:
        self._connection.close()


class Holdfast:
    """`SessionDB`, a message at a time by `append_message`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = SessionDB(path)

    def start(self, session: str) -> None:
        self.db.create_session(session, source="bench")

    def fill(self, session: str, messages: Sequence[Message]) -> None:
        self.db.sessions.append_messages(session, messages)

    def append(self, session: str, message: Message) -> None:
        self.db.sessions.append_message(session, message)

    def catch_up(self) -> None:
        """A search brings the index up to date first."""
        self.db.search(ABSENT)

    def load(self, session: str) -> int:
        return len(self.db.get_messages(session))

    def search(self, query: str) -> int:
        return len(self.db.search(query, limit=HITS))

    def close(self) -> None:
        self.db.close()


class Journalled:
    """The same database by the turn journal: each message is a step of the session's running turn."""

    def __init__(self, store: Holdfast) -> None:
        self.catch_up = store.catch_up
        self._db = store.db
        self._turns: dict[str, str] = {}

    def start(self, session: str) -> None:
        self._db.create_session(session, source="bench")
        self._turns[session] = self._db.turns.open(session, {"role": "user", "content": "go"}).id

    def append(self, session: str, message: Message) -> None:
        self._db.turns.append(self._turns[session], [message])


def settle(path: Path) -> None:
    """Move the log into the file, so that no store starts a measurement with a debt."""
    with closing(sqlite3.connect(path, timeout=30)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a closed database: its texts, its file, and the file as VACUUM would leave it."""

    text: int
    file: int
    packed: int


def size(path: Path) -> Size:
    target = path.with_suffix(".packed")
    with closing(sqlite3.connect(path)) as connection:
        text = "select sum(length(cast(content as blob))) from messages"
        (total,) = connection.execute(text).fetchone()
        connection.execute("vacuum into ?", (os.fspath(target),))
    packed = target.stat().st_size
    target.unlink()
    return Size(total, path.stat().st_size, packed)
