"""Long results: what the model reads of them, and where the whole is kept for reading on.

`ResultBudget.cut` shortens a finished text; a `Spool` takes a command's output as it comes, so that a flood
of it never stands in memory. What is kept lies in a folder for each session, readable by its owner alone.
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
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.tools.decorator import tool

logger = logging.getLogger(__name__)

RESULT_CHARACTERS = 30_000
KEPT_BYTES = 50_000_000
ROOM = 500
"""For the words on where the rest is, so that a result that was cut is not cut again."""
HEAD_SHARE = 0.4
PIECE_BYTES = 100_000
OUTPUTS = "outputs"
"""The folder within a person's data in which long results are kept."""
OUTPUT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
# Colours, cursor movements and window titles that programs send to a terminal.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)?|[@-Z\\-_=>])")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def readable(data: bytes) -> str:
    """A command's output as text: no escape sequences, and of a line redrawn in place its last state."""
    text = ESCAPES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return storable(text)


def storable(text: str) -> str:
    """The text without the characters that no database stores."""
    return UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a kept output; `end` is where to read on, `size` how long it is in bytes by now."""

    text: str
    start: int
    end: int
    size: int


class ResultBudget:
    """Cuts results to `characters`, and keeps the whole of what it cut."""

    def __init__(
        self, folder: Path, characters: int = RESULT_CHARACTERS, *, kept_bytes: int = KEPT_BYTES
    ) -> None:
        self.characters = characters
        self._folder = folder
        self._kept_bytes = kept_bytes

    def cut(self, session_id: str, text: str) -> str:
        """The text, or its head and its tail with a word on where the rest is. Blocks on the disk."""
        if len(text) <= self.characters:
            return storable(text)
        with self.spool(session_id) as spool:
            for start in range(0, len(text), self.characters):
                spool.write(text[start : start + self.characters].encode("utf-8", "replace"))
            return spool.shown()

    def spool(self, session_id: str, *, at_once: bool = False) -> "Spool":
        """A place for output that is still coming; `at_once` keeps it on disk from its first byte."""
        # A session's id may hold anything, so its folder is named by a digest of it.
        name = hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return Spool(self._folder / name, self.characters, self._kept_bytes, at_once=at_once)

    def read(self, output_id: str, offset: int = 0, limit: int | None = None) -> Piece:
        """A stretch of a kept output. Blocks on the disk."""
        found = list(self._folder.glob(f"*/{output_id}.txt")) if OUTPUT_ID.fullmatch(output_id) else []
        if not found:
            raise ToolFailed(f"no output is kept as {output_id!r}; it may have been removed with its session")
        most = min(limit if limit is not None else self.characters, PIECE_BYTES)
        with found[0].open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            start = min(max(0, offset), size)
            file.seek(start)
            data = file.read(most)
        # A character that is cut in two belongs to the next piece, unless it is broken anyway.
        decoder = getincrementaldecoder("utf-8")("replace")
        decoder.decode(data)
        pending = len(decoder.getstate()[0])
        kept = data[: len(data) - pending] or data
        return Piece(readable(kept), start, start + len(kept), size)

    def forget(self, session_id: str) -> None:
        """Remove all that is kept of a session."""
        shutil.rmtree(self.spool(session_id).folder, ignore_errors=True)


class Spool:
    """Output as it comes: head and tail at hand, the whole on disk once it is more than a result holds."""

    def __init__(self, folder: Path, characters: int, kept_bytes: int, *, at_once: bool) -> None:
        self.id = new_id()
        self.folder = folder
        self.size = 0
        most = characters - min(ROOM, characters // 2)
        self._head_most = max(1, int(most * HEAD_SHARE))
        self._tail_most = max(1, most - self._head_most)
        self._kept_most = kept_bytes
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
        """Take the next piece. Never raises: what can't be kept is said in the result."""
        self.size += len(data)
        if self._file is None and self.size > self._head_most + self._tail_most and not self._problem:
            self._open()
            self._keep(bytes(self._head + self._tail))
        self._keep(data)
        room = self._head_most - len(self._head)
        self._head += data[: max(0, room)]
        self._tail += data[max(0, room) :][-self._tail_most :]
        if len(self._tail) > 2 * self._tail_most:
            del self._tail[: -self._tail_most]

    def shown(self) -> str:
        """What a result says of it."""
        tail = bytes(self._tail[-self._tail_most :])
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
        """The end of it, however much came before."""
        known = bytes(self._head + self._tail)
        return readable(known[-min(most or self._tail_most, self._tail_most, len(known) or 1) :])

    def _where(self, offset: int) -> str:
        if self._problem and not self._kept:
            return f"They could not be kept: {self._problem}."
        said = f'Read them with read_output(id="{self.id}", offset={offset}).'
        if self._kept < self.size:
            said += f" Only the first {self._kept} bytes of {self.size} were kept{self._because()}."
        return said

    def _because(self) -> str:
        return f": {self._problem}" if self._problem else ""

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
        room = memoryview(data)[: max(0, self._kept_most - self._kept)]
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
        """Let go of the file. Idempotent; what is kept stays."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def _whole_lines(data: bytes, *, last: bool) -> tuple[bytes, int]:
    """The data cut at a line's end when one is near, and how many bytes that took."""
    near = len(data) // 4
    if last:
        at = data.rfind(b"\n", len(data) - near)
        return (data, 0) if at < 0 else (data[:at], len(data) - at)
    at = data.find(b"\n", 0, near)
    return (data, 0) if at < 0 else (data[at + 1 :], at + 1)


def output_tool(budget: ResultBudget) -> Tool:
    """The tool that reads on in a result that was cut."""

    @tool(changes=False)
    def read_output(
        id: str,  # noqa: A002 - the word the cut result uses
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> str:
        """Read on in a long result that was cut. The cut result names the id and the offset.

        Args:
            id: the id that the cut result names
            offset: the byte to read from

        """
        return told(budget.read(id, offset))

    return read_output


def bounded(each: Tool, budget: ResultBudget) -> Tool:
    """The tool with its results cut to the budget."""

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        result = await each.run(context, arguments)
        if len(result.text) <= budget.characters:
            return replace(result, text=storable(result.text))
        return replace(result, text=await context.off_loop(budget.cut, context.session_id, result.text))

    return replace(each, run=run)


def told(piece: Piece) -> str:
    """A piece as a result, with where to read on."""
    rest = f"read on from offset {piece.end}" if piece.end < piece.size else "this is the end"
    return f"{piece.text}\n[bytes {piece.start} to {piece.end} of {piece.size}; {rest}]"
