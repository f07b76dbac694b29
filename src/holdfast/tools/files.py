"""The file tools: read, write, edit by exact replacement, list a folder.

`resolved_path.py` decides which files a tool may use, `opened_file.py` reads and replaces them, on disk or
through an editor, and `file_search.py` searches.
"""

import asyncio
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.core.messages import storable
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool
from holdfast.tools.opened_file import OpenedFile, OpenedFiles
from holdfast.tools.output import RESULT_CHARACTERS
from holdfast.tools.resolved_path import ResolvedPath, readable_path, translate_os_errors, writable_path
from holdfast.tools.text_files import TextFile

LINES = 2000
MAX_LINE_LENGTH = 2000
MAX_ENTRIES = 1000
MAX_NAMED = 10


class Files:
    """Reads and changes files. Edits of one agent run one after the other, so that none undoes another."""

    def __init__(self, characters: int = RESULT_CHARACTERS, opened: OpenedFiles | None = None) -> None:
        self._characters = characters
        self._opened = opened or OpenedFiles()
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
        opened = await self._opened.read(context, target, documents=True)
        return str(await context.off_loop(self._shown, target, opened, start, lines))

    def _shown(self, target: ResolvedPath, opened: OpenedFile, start: int, lines: int) -> str:
        file = opened.file
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
        notes += _notes(opened)
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
        async with self._editing:
            size, new, note = await self._opened.replace(context, "write_file", target, TextFile(text))
        return f"{'created' if new else 'replaced'} {target.shown} ({size} bytes){note}"

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
            seen = await self._opened.read(context, target)
            text, said = await context.off_loop(_edited, seen.file, target.shown, (old, new), replace_all)
            changed = replace(seen.file, text=text)
            _, _, note = await self._opened.replace(context, "edit_file", target, changed, seen)
        return f"{said}{note}"


def _notes(opened: OpenedFile) -> list[str]:
    """What a reader must know about a file."""
    file = opened.file
    return [
        *([f"read as {file.encoding}"] if file.encoding != "utf-8" else []),
        *(["its lines end with CRLF"] if file.newline == "\r\n" else []),
        *(["with changes that are not saved yet: commands do not see them"] if opened.unsaved else []),
    ]


def _shortened(line: str) -> str:
    if len(line) <= MAX_LINE_LENGTH:
        return line
    return f"{line[:MAX_LINE_LENGTH]} [… {len(line) - MAX_LINE_LENGTH} more characters in this line]"


def _edited(file: TextFile, shown: str, texts: tuple[str, str], replace_all: bool) -> tuple[str, str]:
    """The new text of a file, and what was done, in words."""
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
    return file.text.replace(
        old, new
    ), f"replaced {count} {'place' if count == 1 else 'places'} in {shown} (line {where})"


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
