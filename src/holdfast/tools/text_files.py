"""Reads and writes text files.

Encodings and line ends are kept, and a change is written completely or not at all.
"""

import codecs
import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.tools.resolved_path import ResolvedPath, folder_of, read_bytes, translate_os_errors

MAX_TEXT_BYTES = 20_000_000
MAX_COMPARED_BYTES = 400_000
SNIFFED_BYTES = 8192
MAX_CONTROL_SHARE = 0.3
# The mark of UTF-32 begins with that of UTF-16, so it comes first.
MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
CONTROLS = bytes(set(range(32)) - set(b"\t\n\v\r\f\x1b\b"))


@dataclass(frozen=True, slots=True)
class TextFile:
    """The text of a file, and its encoding."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes, shown: str) -> Self:
        """Decode bytes; raises `ToolFailed` for binary data."""
        for mark, encoding in MARKS:
            if data.startswith(mark):
                with contextlib.suppress(UnicodeDecodeError):
                    return cls(data[len(mark) :].decode(encoding), encoding, mark)
        beginning = data[:SNIFFED_BYTES]
        controls = len(beginning) - len(beginning.translate(None, CONTROLS))
        if b"\0" in beginning or controls > MAX_CONTROL_SHARE * len(beginning):
            raise ToolFailed(f"{shown} is not text ({len(data)} bytes of binary data)")
        try:
            return cls(data.decode("utf-8"))
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), "latin-1")

    def encode(self, text: str, shown: str) -> bytes:
        """Encode another text in the same way."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as cause:
            odd = text[cause.start : cause.end][:20]
            raise ToolFailed(f"{shown} is kept as {self.encoding}, which can't hold {odd!r}") from cause

    @property
    def newline(self) -> str:
        """The line end of the whole file; a newline when they are mixed or there are none."""
        crlf = self.text.count("\r\n")
        return "\r\n" if crlf and crlf == self.text.count("\n") else "\n"


def replace_file(target: ResolvedPath, data: bytes, *, unchanged_since: os.stat_result | None = None) -> bool:
    """Write a file completely or not at all, and keep its mode; True when the file is new.

    With `unchanged_since`, it refuses when the file has changed since it was read.
    """
    with translate_os_errors(target), folder_of(target.path, create=True) as folder:
        name = target.path.name
        before = _state(name, folder)
        _check(target, before, unchanged_since)
        written = f".holdfast-{new_id()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(written, flags, 0o666, dir_fd=folder)
        try:
            with os.fdopen(file, "wb") as writing:
                writing.write(data)
                writing.flush()
                if before is not None:
                    _keep_rights(file, before)
                os.fsync(file)
            _check(target, _state(name, folder), unchanged_since)
            os.replace(written, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(written, dir_fd=folder)
            raise
        return before is None


def check_replaceable(target: ResolvedPath, unchanged_since: os.stat_result | None) -> bool:
    """Refuse what `replace_file` refuses, and create the folders; True when the file is new."""
    with translate_os_errors(target), folder_of(target.path, create=True) as folder:
        before = _state(target.path.name, folder)
        _check(target, before, unchanged_since)
        return before is None


def _state(name: str, folder: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check(target: ResolvedPath, found: os.stat_result | None, expected: os.stat_result | None) -> None:
    if found is not None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolFailed(f"{target.shown} is a folder")
        if not stat.S_ISREG(found.st_mode):
            raise ToolFailed(f"{target.shown} is not a regular file; it was left as it is")
        if not found.st_mode & 0o222:
            raise ToolFailed(f"{target.shown} is marked read-only; it was left as it is")
    if expected is not None and (found is None or file_identity(found) != file_identity(expected)):
        raise ToolFailed(
            f"{target.shown} was changed by somebody else meanwhile; read it again. Nothing was written"
        )


def file_identity(found: os.stat_result) -> tuple[int, int, int, int]:
    """What tells whether a file is still the one that was read."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _keep_rights(file: int, before: os.stat_result) -> None:
    with contextlib.suppress(PermissionError):  # only root can change the owner of a file
        os.fchown(file, before.st_uid, before.st_gid)
    os.fchmod(file, stat.S_IMODE(before.st_mode))


def text_at(path: Path) -> str | None:
    """The text of a file, for a person to compare; None where there is none, it is no text, or too long."""
    target = ResolvedPath(path, inside=False, shown=str(path))
    try:
        data, _ = read_bytes(target, MAX_COMPARED_BYTES)
        return TextFile.decode(data, target.shown).text
    except ToolFailed:
        return None
