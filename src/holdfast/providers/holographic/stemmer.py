"""Porter's stemmer, done by SQLite: "painted" and "painting" have the stem that the index has for them."""

import sqlite3
import threading
from functools import cache, lru_cache

SCHEMA = """
create virtual table text using fts5 (word, content = '', tokenize = 'porter');
create virtual table stems using fts5vocab (text, row);
"""


class _Index:
    """An index in memory that holds one word at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _connection, which serves one thread at a time
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.executescript(SCHEMA)

    def stem(self, word: str) -> str:
        with self._lock:
            self._connection.execute("begin")
            self._connection.execute("insert into text (word) values (?)", (word,))
            stem = str(self._connection.execute("select term from stems").fetchone()[0])
            self._connection.execute("rollback")
        return stem


@cache
def _index() -> _Index:
    return _Index()


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """The stem of a lower-case word; a word with other letters than a to z is not changed."""
    return _index().stem(word) if word.isascii() and word.isalpha() else word
