"""Reads what is at a path as a `FileVersion`, and puts an earlier version back.

Paths are whole and resolved. No link on the way is followed, so that a link which was put there meanwhile
can't lead anywhere else. A version is put back completely or not at all.
"""

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.sessions.file_changes import FileVersion
from holdfast.tools.kept_contents import content_hash
from holdfast.tools.resolved_path import ResolvedPath, folder_of, translate_os_errors

MOST_BYTES = 20_000_000
"""Larger files are not read: their content is not kept."""
TOO_LARGE = "too large"
"""Stands in for the hash of such a file."""
NOTHING = FileVersion()


@dataclass(frozen=True, slots=True)
class FoundFile:
    """What is at a path now. `data` is the content, or a link's target; None when there is none to keep."""

    version: FileVersion
    data: bytes | None = None
    status: os.stat_result | None = None


def read_version(path: Path, most: int = MOST_BYTES) -> FoundFile | None:
    """What is at a path; None for a folder, a device, or what can't be read."""
    try:
        with folder_of(path) as folder:
            return _read(path.name, folder, most)
    except (FileNotFoundError, NotADirectoryError):
        return FoundFile(NOTHING)
    except OSError:
        return None


def _read(name: str, folder: int, most: int) -> FoundFile | None:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        data = os.fsencode(os.readlink(name, dir_fd=folder))
        return FoundFile(FileVersion(content_hash(data), found.st_mode), data, found)
    if not stat.S_ISREG(found.st_mode):
        return None
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(name, flags, dir_fd=folder)
    with os.fdopen(file, "rb") as reading:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        data = reading.read(most + 1) if found.st_size <= most else b""
    if found.st_size > most or len(data) > most:
        return FoundFile(FileVersion(TOO_LARGE, found.st_mode), None, found)
    return FoundFile(FileVersion(content_hash(data), found.st_mode), data, found)


def is_same(one: FileVersion, other: FileVersion) -> bool:
    """Whether two versions are the same file, with the same rights where both are known."""
    if one.hash != other.hash or one.hash == TOO_LARGE:
        return False
    return one.mode is None or other.mode is None or one.mode == other.mode


def put_back(path: Path, version: FileVersion, data: bytes | None, expected: os.stat_result | None) -> None:
    """Make a path hold a version again; `expected` is what is there now. Raises `ToolFailed`."""
    target = ResolvedPath(path, inside=True, shown=str(path))
    with translate_os_errors(target), folder_of(path, create=version.hash is not None) as folder:
        if version.hash is None or data is None:
            _require_unchanged(path, folder, expected)
            os.unlink(path.name, dir_fd=folder)
            return
        written = f".holdfast-{new_id()}.tmp"
        try:
            _write(written, folder, version.mode or 0o100644, data, owner=expected)
            _require_unchanged(path, folder, expected)
            os.replace(written, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(written, dir_fd=folder)
            raise


def _write(name: str, folder: int, mode: int, data: bytes, owner: os.stat_result | None) -> None:
    """Write a file or a link; it belongs to whom `owner` belongs, the file that it replaces."""
    if stat.S_ISLNK(mode):
        os.symlink(data, name, dir_fd=folder)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    with os.fdopen(file, "wb") as writing:
        writing.write(data)
        writing.flush()
        if owner is not None:
            with contextlib.suppress(PermissionError):  # only root can change the owner of a file
                os.fchown(file, owner.st_uid, owner.st_gid)
        os.fchmod(file, stat.S_IMODE(mode))
        os.fsync(file)


def _require_unchanged(path: Path, folder: int, expected: os.stat_result | None) -> None:
    try:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        found = None
    if _identity(found) != _identity(expected):
        raise ToolFailed(f"{path} is being changed by somebody else; it was left as it is")


def _identity(found: os.stat_result | None) -> tuple[int, ...] | None:
    return None if found is None else (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
