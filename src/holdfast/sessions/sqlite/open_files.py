"""`OpenFiles`: whether the files of an open database are still where they were opened.

A file that is deleted, moved or replaced under a running program still takes what is written, and nobody
finds it again. So the writer looks before each commit; a look costs a few microseconds.
"""

import os
import sqlite3

from holdfast.core.errors import StoreGone

BESIDE = ("-wal", "-shm")
"""The log, in which a commit is until it is moved into the file, and the log's index."""

MOVE_BACK = (
    "Move it back, together with its -wal and -shm files, and Holdfast goes on; or restart Holdfast, which "
    "begins with what is there then."
)
REPLACED = (
    "Move the file that Holdfast opened back there, with its -wal and -shm files, and it goes on; or restart "
    "Holdfast to use the new one."
)


class OpenFiles:
    """The files of one database, as they were when this program opened them."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self._path = path
        # SQLite follows links, so the log lies beside the file itself.
        real = str(connection.execute("pragma database_list").fetchone()[2])
        self._file = _known(path, real)
        self._log = _known(*(f"{real}{suffix}" for suffix in BESIDE))

    def require(self) -> None:
        """For a writer: raises `StoreGone` unless the file and its log are there."""
        _require(self._file)
        _require(self._log)

    def require_file(self) -> None:
        """For who opens the file anew: raises `StoreGone` unless it is there; a missing log is made."""
        _require(self._file)


def _known(*names: str) -> dict[str, tuple[int, int]]:
    found = {name: _identity(name) for name in names}
    return {name: identity for name, identity in found.items() if identity is not None}


def _require(known: dict[str, tuple[int, int]]) -> None:
    for name, identity in known.items():
        found = _identity(name)
        if found is None:
            raise StoreGone(f"{name} was deleted or moved away while Holdfast uses it", MOVE_BACK)
        if found != identity:
            raise StoreGone(f"another file is at {name} than the one that Holdfast uses", REPLACED)


def _identity(name: str) -> tuple[int, int] | None:
    try:
        # Nothing is opened: to close a second handle of the file would drop this process's locks on it.
        found = os.stat(name)  # noqa: PTH116 - at every commit
    except OSError:
        return None
    return found.st_dev, found.st_ino
