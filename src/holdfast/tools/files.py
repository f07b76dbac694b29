"""The file tools: read, write, edit by exact replacement, list a folder.

`places.py` says what may be touched, `text_files.py` how text is kept; searching is in `searching.py`.
"""

import asyncio
import os
import stat
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool
from holdfast.tools.output import RESULT_CHARACTERS, storable
from holdfast.tools.places import Place, problems_named, read_bytes, readable_place, writable_place
from holdfast.tools.text_files import LARGEST_TEXT, TextFile, replace_file

LINES = 2000
LONGEST_LINE = 2000
MOST_ENTRIES = 1000
MOST_NAMED = 10


class Files:
    """Reads and changes files. Edits of one agent wait for each other, so that none undoes another."""

    def __init__(self, characters: int = RESULT_CHARACTERS) -> None:
        self._characters = characters
        # Held across a read and a write of one local file; calls of one batch run side by side.
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
        """Read a text file. Each line comes with its number and a tab before it.

        Args:
            path: the file, relative to the workspace or absolute
            start: the first line to read
            lines: how many lines at most

        """
        place = await readable_place(context, path)
        return str(await context.off_loop(self._read, place, start, lines))

    def _read(self, place: Place, start: int, lines: int) -> str:
        data, _ = read_bytes(place, LARGEST_TEXT)
        file = TextFile.decode(data, place.shown)
        found = file.text.split("\n")
        if found[-1] == "":
            found.pop()
        if not found:
            return f"[{place.shown} is empty]"
        if start > len(found):
            raise ToolFailed(f"{place.shown} has only {len(found)} lines")
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
        place = await readable_place(context, path)
        return str(await context.off_loop(_listed, place))

    async def write_file(self, path: str, text: str, context: ToolContext) -> str:
        """Write a whole text file, and the folders it needs. What was in it before is gone.

        Args:
            path: the file, relative to the workspace or absolute
            text: the whole new content

        """
        place = await writable_place(context, path)
        data = TextFile("").encode(text, place.shown)
        async with self._editing:
            new = await context.off_loop(replace_file, place, data)
        return f"{'created' if new else 'replaced'} {place.shown} ({len(data)} bytes)"

    async def edit_file(
        self, path: str, old: str, new: str, context: ToolContext, replace_all: bool = False
    ) -> str:
        """Replace a stretch of a text file by another. The stretch must stand in it exactly once.

        Args:
            path: the file, relative to the workspace or absolute
            old: the exact text to replace, without the line numbers that read_file shows; with enough
                lines around it to be the only one
            new: what to put in its place
            replace_all: replace every place where it stands

        """
        place = await writable_place(context, path)
        async with self._editing:
            return str(await context.off_loop(_edit, place, old, new, replace_all))


def _shortened(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]} [… {len(line) - LONGEST_LINE} more characters in this line]"


def _edit(place: Place, old: str, new: str, replace_all: bool) -> str:
    if not old:
        raise ToolFailed("`old` is empty; use write_file to write a whole file")
    if old == new:
        raise ToolFailed("`old` and `new` are the same; nothing was changed")
    data, found = read_bytes(place, LARGEST_TEXT)
    file = TextFile.decode(data, place.shown)
    # A model writes plain newlines, also for a file whose lines all end otherwise.
    if file.newline == "\r\n":
        old, new = _as_crlf(old), _as_crlf(new)
    count = file.text.count(old)
    if count == 0:
        raise ToolFailed(f"`old` does not stand in {place.shown}. {_nearby(file.text, old)}")
    if count > 1 and not replace_all:
        raise ToolFailed(
            f"`old` stands {count} times in {place.shown} (lines {_lines_of(file.text, old)}); "
            "add lines around it, or set replace_all"
        )
    where = _lines_of(file.text, old)
    changed = file.encode(file.text.replace(old, new), place.shown)
    replace_file(place, changed, unchanged_since=found)
    return f"replaced {count} {'place' if count == 1 else 'places'} in {place.shown} (line {where})"


def _as_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_of(text: str, part: str) -> str:
    named: list[str] = []
    at = text.find(part)
    while at >= 0:
        if len(named) == MOST_NAMED:
            return ", ".join(named) + ", …"
        named.append(str(text.count("\n", 0, at) + 1))
        at = text.find(part, at + len(part))
    return ", ".join(named)


def _nearby(text: str, old: str) -> str:
    """A hint at what was meant: lines that are the same but for blanks."""
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")
    same = [str(number) for number, line in enumerate(text.split("\n"), 1) if first and line.strip() == first]
    if not same:
        return "Read the file again: it may have changed."
    return f"Its first line is like line {', '.join(same[:MOST_NAMED])}, so blanks or what follows differ."


def _listed(place: Place) -> str:
    with problems_named(place):
        if not stat.S_ISDIR(place.path.lstat().st_mode):
            raise ToolFailed(f"{place.shown} is not a folder")
        with os.scandir(place.path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    lines = [_entry(each) for each in entries[:MOST_ENTRIES]]
    if len(entries) > MOST_ENTRIES:
        lines.append(f"[… and {len(entries) - MOST_ENTRIES} more]")
    return "\n".join(lines) or f"[{place.shown} is empty]"


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
