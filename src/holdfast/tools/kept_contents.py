"""`KeptContents`: contents of files that tools changed, each under its hash, so that they can be put back.

One folder for each conversation, which only its owner can read and which goes with the conversation. All of
them together have a limit: when it is reached, the contents that were kept longest ago are dropped.
"""

import hashlib
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from holdfast.core.ids import new_id

logger = logging.getLogger(__name__)

FILE_HISTORY = "file-history"
"""The name of the folder, in the data folder."""
MEGABYTE = 1_000_000
KEPT_SHARE = 0.9
"""How full the folder is after the oldest were dropped, so that this is not done for every file."""


def content_hash(data: bytes) -> str:
    """The name under which a content is kept."""
    return hashlib.sha256(data).hexdigest()


class KeptContents:
    """The contents in one folder. Several processes may use it at once. All methods block on the disk."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Keeps `most_bytes` at most, and nothing at all when that is 0."""
        self._folder = folder
        self._most = most_bytes
        # An estimate: other processes add and drop too. It is counted anew before anything is dropped.
        self._size: int | None = None

    def put(self, conversation: str, data: bytes) -> str:
        """Keep a content; returns its hash. Once this returns, the content survives a power cut."""
        name = content_hash(data)
        if len(data) > self._most:
            return name
        folder = self._of(conversation)
        target = folder / name
        if self._touch(target):
            return name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = folder / f".{new_id()}.tmp"
        file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(file, "wb") as writing:
                writing.write(data)
                writing.flush()
                os.fsync(file)
            written.replace(target)
        except BaseException:
            with suppress(OSError):
                written.unlink()
            raise
        for each in (folder, self._folder):
            _sync(each)
        self._added(len(data))
        return name

    def get(self, conversation: str, name: str) -> bytes | None:
        """A content by its hash; None when it was never kept, was dropped, or is damaged."""
        try:
            data = (self._of(conversation) / name).read_bytes()
        except OSError:
            return None
        return data if content_hash(data) == name else None

    def forget(self, session_id: str) -> None:
        """Drop what is kept for a conversation, named by its first session."""
        shutil.rmtree(self._of(session_id), ignore_errors=True)
        self._size = None

    def _of(self, conversation: str) -> Path:
        # A session's id may contain any character, so the folder has a digest as its name.
        return self._folder / hashlib.sha256(conversation.encode("utf-8", "surrogatepass")).hexdigest()[:24]

    def _touch(self, target: Path) -> bool:
        """Whether it is there; then it counts as kept now."""
        try:
            os.utime(target)
        except FileNotFoundError:
            return False
        return True

    def _added(self, count: int) -> None:
        self._size = sum(size for _, size, _ in self._files()) if self._size is None else self._size + count
        if self._size <= self._most:
            return
        files = sorted(self._files())
        left, dropped = sum(size for _, size, _ in files), 0
        for _, size, path in files[:-1]:
            if left <= self._most * KEPT_SHARE:
                break
            with suppress(OSError):
                Path(path).unlink()
            left, dropped = left - size, dropped + 1
        self._size = left
        logger.info("file_history.dropped", extra={"contents": dropped, "limit_bytes": self._most})

    def _files(self) -> list[tuple[int, int, str]]:
        """When each content was last kept, its size, and its path."""
        found = []
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = f"{folder}/{name}"
                with suppress(OSError):  # another process dropped it
                    status = os.stat(path)  # noqa: PTH116 - thousands of them, on strings
                    found.append((status.st_mtime_ns, status.st_size, path))
        return found


def _sync(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
