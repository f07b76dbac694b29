"""The file tools: read, write, edit by exact replacement, list a folder.

`resolved_path.py` decides which files a tool may use, `text_files.py` keeps encodings and line ends, and
`file_search.py` searches.
"""

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool
from holdfast.tools.documents import document_text, is_document
from holdfast.tools.file_history import FileHistory
from holdfast.tools.output import RESULT_CHARACTERS
from holdfast.tools.resolved_path import (
    ResolvedPath,
    read_bytes,
    readable_path,
    translate_os_errors,
    writable_path,
)
from holdfast.tools.text_files import MAX_TEXT_BYTES, TextFile, replace_file

LINES = 2000
MAX_LINE_LENGTH = 2000
MAX_ENTRIES = 1000
MAX_NAMED = 10


class Files:
    """Reads and changes files. Edits of one agent run one after the other, so that none undoes another."""

    def __init__(self, characters: int = RESULT_CHARACTERS, history: FileHistory | None = None) -> None:
        """With a `history` every change can be taken back."""
        self._characters = characters
        self._history = history
        # Held during the read and the write of one file, because the calls of one batch run at the same time.
        self._editing = asyncio.Lock()

    def tools(self) -> list[Tool]:
        reading = tool(changes=False)
        return [
            reading(self.read_file),
            reading(self.list_folder),
            tool(self.write_file),
            tool(self.edit_file),
        ]

    async def read_file(
        self,
        path: str,
        context: ToolContext,
        start: Annotated[int, Field(ge=1)] = 1,
        lines: Annotated[int, Field(ge=1, le=10_000)] = LINES,
    ) -> str:
        """Read a text file, a PDF or an Office document. Each line comes with its number and a tab before it.

        Args:
            path: the file, relative to the workspace or absolute
            start: the first line to read
            lines: how many lines at most

        """
        target = await readable_path(context, path)
        data, _ = await context.off_loop(read_bytes, target, MAX_TEXT_BYTES)
        if is_document(target.path.name, data):
            file = TextFile(await document_text(target.shown, data))
        else:
            file = await context.off_loop(TextFile.decode, data, target.shown)
        return str(await context.off_loop(self._shown, target, file, start, lines))

    def _shown(self, target: ResolvedPath, file: TextFile, start: int, lines: int) -> str:
        found = file.text.split("\n")
        if found[-1] == "":
            found.pop()
        if not found:
            return f"[{target.shown} is empty]"
        if start > len(found):
            raise ToolFailed(f"{target.shown} has only {len(found)} lines")
        shown: list[str] = []
        length, at = 0, start - 1
        while at < min(len(found), start - 1 + lines):
            line = _shortened(storable(found[at].removesuffix("\r")))
            length += len(line) + 8
            if shown and length > self._characters * 0.9:
                break
            at += 1
            shown.append(f"{at}\t{line}")
        notes = []
        if at < len(found) or start > 1:
            notes.append(f"lines {start} to {at} of {len(found)}")
        if at < len(found):
            notes.append(f"read on with start={at + 1}")
        if file.encoding != "utf-8":
            notes.append(f"read as {file.encoding}")
        if file.newline == "\r\n":
            notes.append("its lines end with CRLF")
        return "\n".join([*shown, *([f"[{'; '.join(notes)}]"] if notes else [])])

    async def list_folder(self, context: ToolContext, path: str = ".") -> str:
        """List what is in a folder: folders end with a slash, links show where they point.

        Args:
            path: the folder, relative to the workspace or absolute

        """
        target = await readable_path(context, path)
        return str(await context.off_loop(_listed, target))

    async def write_file(self, path: str, text: str, context: ToolContext) -> str:
        """Write a whole text file, and create its folders. The old content is replaced.

        Args:
            path: the file, relative to the workspace or absolute
            text: the whole new content

        """
        target = await writable_path(context, path)
        data = TextFile("").encode(text, target.shown)
        async with self._editing:
            new = await context.off_loop(self._replace, context, "write_file", target, data)
        return f"{'created' if new else 'replaced'} {target.shown} ({len(data)} bytes)"

    async def edit_file(
        self, path: str, old: str, new: str, context: ToolContext, replace_all: bool = False
    ) -> str:
        """Replace a part of a text file. The old text must occur in it exactly once.

        Args:
            path: the file, relative to the workspace or absolute
            old: the exact text to replace, without the line numbers that read_file shows; with enough
                lines around it to be the only one
            new: what to put in its place
            replace_all: replace every occurrence

        """
        target = await writable_path(context, path)
        async with self._editing:
            file, found = await context.off_loop(_read_text, target)
            changed, said = await context.off_loop(_edited, file, target.shown, (old, new), replace_all)
            await context.off_loop(self._replace, context, "edit_file", target, changed, found)
        return str(said)

    def _replace(
        self,
        context: ToolContext,
        tool: str,
        target: ResolvedPath,
        data: bytes,
        unchanged_since: os.stat_result | None = None,
    ) -> bool:
        if self._history is None:
            return replace_file(target, data, unchanged_since=unchanged_since)
        return self._history.write(context, tool, target, data, unchanged_since)


def _shortened(line: str) -> str:
    if len(line) <= MAX_LINE_LENGTH:
        return line
    return f"{line[:MAX_LINE_LENGTH]} [… {len(line) - MAX_LINE_LENGTH} more characters in this line]"


def _read_text(target: ResolvedPath) -> tuple[TextFile, os.stat_result]:
    data, found = read_bytes(target, MAX_TEXT_BYTES)
    return TextFile.decode(data, target.shown), found


def _edited(file: TextFile, shown: str, texts: tuple[str, str], replace_all: bool) -> tuple[bytes, str]:
    """The new content of a file, and what was done, in words."""
    old, new = texts
    if not old:
        raise ToolFailed("`old` is empty; use write_file to write a whole file")
    if old == new:
        raise ToolFailed("`old` and `new` are the same; nothing was changed")
    # A model writes plain newlines, even for a file in which all lines end with CRLF.
    if file.newline == "\r\n":
        old, new = _as_crlf(old), _as_crlf(new)
    count = file.text.count(old)
    if count == 0:
        raise ToolFailed(f"`old` was not found in {shown}. {_nearby(file.text, old)}")
    if count > 1 and not replace_all:
        raise ToolFailed(
            f"`old` was found {count} times in {shown} (lines {_lines_of(file.text, old)}); "
            "add lines around it, or set replace_all"
        )
    where = _lines_of(file.text, old)
    changed = file.encode(file.text.replace(old, new), shown)
    return changed, f"replaced {count} {'place' if count == 1 else 'places'} in {shown} (line {where})"


def _as_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, part: str) -> str:
    named: list[str] = []
    at = text.find(part)
    while at >= 0:
        if len(named) == MAX_NAMED:
            return ", ".join(named) + ", …"
        named.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + len(part))
    return ", ".join(named)


def _nearby(text: str, old: str) -> str:
    """A hint: lines that differ only in blanks."""
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    same = [str(number) for number, line in enumerate(text.split("\n"), 1) if first and line.strip() == first]
    if not same:
        return "Read the file again: it may have changed."
    return f"Its first line is like line {', '.join(same[:MAX_NAMED])}, so blanks or what follows differ."


def _listed(target: ResolvedPath) -> str:
    with translate_os_errors(target):
        if not stat.S_ISDIR(target.path.lstat().st_mode):
            raise ToolFailed(f"{target.shown} is not a folder")
        with os.scandir(target.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    lines = [_entry(each) for each in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[… and {len(entries) - MAX_ENTRIES} more]")
    return "\n".join(lines) or f"[{target.shown} is empty]"


def _entry(entry: os.DirEntry[str]) -> str:
    name = storable(entry.name).replace("\n", "\\n")
    try:
        if entry.is_symlink():
            return f"{name} -> {storable(str(Path(entry.path).readlink()))}"
        if entry.is_dir():
            return f"{name}/"
        found = entry.stat(follow_symlinks=False)
    except OSError as cause:
        return f"{name} ({cause.strerror})"
    return (
        f"{name} ({found.st_size} bytes)" if stat.S_ISREG(found.st_mode) else f"{name} (not a regular file)"
    )
