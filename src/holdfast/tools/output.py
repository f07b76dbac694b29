"""Cuts long results for the model, and keeps the whole output on disk for later reading.

`ResultBudget.cut` shortens a finished text. A `Spool` receives the output of a command while it runs, so that
a large output is never in memory as a whole. Outputs are kept in one folder for each session, which only its
owner can read.
"""

import hashlib
import logging
import os
import re
import shutil
from codecs import getincrementaldecoder
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.core.ids import new_id
from holdfast.core.messages import storable
from holdfast.sessions.contract import OWNER, scope_folder
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool

logger = logging.getLogger(__name__)

RESULT_CHARACTERS = 30_000
KEPT_BYTES = 50_000_000
NOTE_RESERVE = 500
"""Characters for the note that says where the rest is, so that a cut result is not cut again."""
HEAD_SHARE = 0.4
PIECE_BYTES = 100_000
OUTPUTS = "outputs"
"""The name of the folder for long results, in the data folder."""
SCOPES = "scopes"
"""The folder in it for those of people other than the owner."""
OUTPUT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
# Colours, cursor movements and window titles that programs send to a terminal.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|[@-Z\\-_=>])")


def readable(data: bytes) -> str:
    """The output of a command as text, without escape sequences; of a redrawn line only the last state."""
    text = ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return storable(text)


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """A part of a kept output. `end` is the offset of the next part, `size` the present size in bytes."""

    text: str
    start: int
    end: int
    size: int


class ResultBudget:
    """Cuts results to `characters`, and keeps the whole text of those that it cut."""

    def __init__(
        self, folder: Path, characters: int = RESULT_CHARACTERS, *, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self.characters = characters
        self._folder = folder
        self._kept_bytes = kept_bytes

    def of(self, scope: str) -> "ResultBudget":
        """The budget of one scope, which reads nothing that was kept for another."""
        if scope == OWNER:
            return self
        folder = self._folder / SCOPES / scope_folder(scope)
        return ResultBudget(folder, self.characters, kept_bytes=self._kept_bytes)

    def cut(self, session_id: str, text: str) -> str:
        """The text, or its head and tail with a note that says where the rest is. Blocks on the disk."""
        if len(text) <= self.characters:
            return storable(text)
        with self.spool(session_id) as spool:
            for start in range(0, len(text), self.characters):
                spool.write(text[start : start + self.characters].encode("utf-8", "replace"))
            return spool.shown()

    def spool(self, session_id: str, *, at_once: bool = False) -> "Spool":
        """A spool for new output; `at_once` keeps it on disk from the first byte."""
        # A session's id may contain any character, so the folder has a digest as its name.
        name = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return Spool(self._folder / name, self.characters, self._kept_bytes, at_once=at_once)

    def read(self, output_id: str, offset: int = 0, limit: int | None = None) -> OutputSlice:
        """Read a part of a kept output. Blocks on the disk."""
        found = list(self._folder.glob(f"*/{output_id}.txt")) if OUTPUT_ID.fullmatch(output_id) else []
        if not found:
            raise ToolFailed(f"no output is kept as {output_id!r}; it may have been removed with its session")
        most = min(limit if limit is not None else self.characters, PIECE_BYTES)
        with found[0].open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = min(max(0, offset), size)
            file.seek(start)
            data = file.read(most)
        # A character that is cut in two belongs to the next part, unless it is invalid anyway.
        decoder = getincrementaldecoder("utf-8")("replace")
        decoder.decode(data)
        pending = len(decoder.getstate()[0])
        kept = data[: len(data) - pending] or data
        return OutputSlice(readable(kept), start, start + len(kept), size)

    def forget(self, session_id: str) -> None:
        """Remove all outputs of a session, whatever its scope."""
        own = self.spool(session_id).folder
        for folder in (own, *self._folder.glob(f"{SCOPES}/*/{own.name}")):
            shutil.rmtree(folder, ignore_errors=True)


class Spool:
    """Output while it arrives.

    Head and tail in memory, everything on disk when it is too long for a result.
    """

    def __init__(self, folder: Path, characters: int, kept_bytes: int, *, at_once: bool) -> None:
        self.id = new_id()
        self.folder = folder
        self.size = 0
        most = characters - min(NOTE_RESERVE, characters // 2)
        self._head_max = max(1, int(most * HEAD_SHARE))
        self._tail_max = max(1, most - self._head_max)
        self._kept_max = kept_bytes
        self._kept = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._file: int | None = None
        self._problem = ""
        if at_once:
            self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        """Add output. Never raises: the result says when output could not be kept."""
        self.size += len(data)
        if self._file is None and self.size > self._head_max + self._tail_max and not self._problem:
            self._open()
            self._keep(bytes(self._head + self._tail))
        self._keep(data)
        room = self._head_max - len(self._head)
        self._head += data[: max(0, room)]
        self._tail += data[max(0, room) :][-self._tail_max :]
        if len(self._tail) > 2 * self._tail_max:
            del self._tail[: -self._tail_max]

    def shown(self) -> str:
        """The text for the result."""
        tail = bytes(self._tail[-self._tail_max :])
        left_out = self.size - len(self._head) - len(tail)
        if left_out <= 0:
            return readable(bytes(self._head) + tail)
        head, lost = _whole_lines(bytes(self._head), last=True)
        tail, lost_too = _whole_lines(tail, last=False)
        left_out += lost + lost_too
        return (
            f"{readable(head)}\n[… {left_out} bytes are left out here. {self._where(len(head))} …]\n"
            f"{readable(tail)}"
        )

    def last(self, most: int | None = None) -> str:
        """The end of the output."""
        known = bytes(self._head + self._tail)
        return readable(known[-min(most or self._tail_max, self._tail_max, len(known) or 1) :])

    def _where(self, offset: int) -> str:
        if self._problem and not self._kept:
            return f"They could not be kept: {self._problem}."
        note = f'Read them with read_output(id="{self.id}", offset={offset}).'
        if self._kept < self.size:
            why = f": {self._problem}" if self._problem else ""
            note += f" Only the first {self._kept} bytes of {self.size} were kept{why}."
        return note

    def _open(self) -> None:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self.folder / f"{self.id}.txt"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except OSError as cause:
            self._give_up(cause)

    def _keep(self, data: bytes) -> None:
        if self._file is None:
            return
        room = memoryview(data)[: max(0, self._kept_max - self._kept)]
        try:
            while room:
                written = os.write(self._file, room)
                self._kept += written
                room = room[written:]
        except OSError as cause:
            self._give_up(cause)

    def _give_up(self, cause: OSError) -> None:
        self._problem = cause.strerror or str(cause)
        logger.warning("output.not_kept", extra={"output": self.id, "cause": repr(cause)})
        self.close()

    def close(self) -> None:
        """Close the file; its content stays. It may be called again."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _whole_lines(data: bytes, *, last: bool) -> tuple[bytes, int]:
    """The data, cut at a line end when one is near, and the number of bytes that were cut."""
    near = len(data) // 4
    if last:
        at = data.rfind(b"\n", len(data) - near)
        return (data, 0) if at < 0 else (data[:at], len(data) - at)
    at = data.find(b"\n", 0, near)
    return (data, 0) if at < 0 else (data[at + 1 :], at + 1)


def output_tool(budget: ResultBudget) -> Tool:
    """The tool that reads the rest of a result that was cut."""

    @tool(changes=False)
    def read_output(
        id: str,  # noqa: A002 - the word the cut result uses
        context: ToolContext,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> str:
        """Read on in a long result that was cut. The cut result names the id and the offset.

        Args:
            id: the id that the cut result names
            offset: the byte to read from

        """
        return format_slice(budget.of(context.scope).read(id, offset))

    return read_output


def bounded(each: Tool, budget: ResultBudget) -> Tool:
    """The tool with its results cut to the budget."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        result = await each.run(context, arguments)
        if len(result.text) <= budget.characters:
            return replace(result, text=storable(result.text))
        cut = budget.of(context.scope).cut
        return replace(result, text=await context.off_loop(cut, context.session_id, result.text))

    return replace(each, run=run)


def format_slice(piece: OutputSlice) -> str:
    """A part of an output as a result, with the offset of the next part."""
    rest = f"read on from offset {piece.end}" if piece.end < piece.size else "this is the end"
    return f"{piece.text}\n[bytes {piece.start} to {piece.end} of {piece.size}; {rest}]"
