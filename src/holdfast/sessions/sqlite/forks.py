"""Which database files this process has open, so that a forked child leaves them alone.

SQLite keeps a file's locks per process. A forked child inherits the belief that they are held, without the
locks: opening the file there once more could lose what it writes. Such a child is refused.
"""

import os
from pathlib import Path

from holdfast.core.errors import StoreUnopenable

FileKey = tuple[int, int]

# One for the process, like the lock state inside SQLite that it mirrors: how often, and by which process.
_open_files: dict[FileKey, tuple[int, int]] = {}


def refuse_forked(path: str) -> None:
    """Raise when this process is a fork of one that has the file open."""
    owner, _ = _open_files.get(_key(path), (os.getpid(), 0))
    if owner != os.getpid():
        raise StoreUnopenable(
            path,
            "this process was forked from one that has it open. Start it with the 'spawn' method, or close "
            "the store before forking",
        )


def note_opened(path: str) -> FileKey:
    key = _key(path)
    _, count = _open_files.get(key, (os.getpid(), 0))
    _open_files[key] = (os.getpid(), count + 1)
    return key


def note_closed(key: FileKey) -> None:
    owner, count = _open_files.get(key, (os.getpid(), 1))
    if owner == os.getpid():
        if count > 1:
            _open_files[key] = (owner, count - 1)
        else:
            _open_files.pop(key, None)


def _key(path: str) -> FileKey:
    known = Path(path).stat()
    return known.st_dev, known.st_ino
