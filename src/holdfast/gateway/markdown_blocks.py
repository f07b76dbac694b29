"""The blocks of a Markdown text: code fences, tables, and the text between them.

The splitter asks each block where it may be cut and how a stretch of it reads on its own.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

OPENER = re.compile(r"^([ \t]*)(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)$", re.MULTILINE)
"""The line that opens a code fence: its indentation, its marks, its language."""
DELIMITER_CELL = re.compile(r":?-+:?")

FenceStyle = Literal["full", "bare", "plain"]


@dataclass(slots=True)
class TextBlock:
    """Paragraphs, lists, headings: may be cut at any character."""

    source: str
    start: int
    end: int

    def cut_at(self, position: int) -> int:
        """The last place at or before this one where the block may be cut; its start when there is none."""
        return position

    def first_cut(self, after: int) -> int:
        """The nearest place after this one where the block may be cut."""
        return min(after + 1, self.end)

    def resume(self, position: int) -> int:
        """Where the next part begins after a cut here: past blank lines and the spaces of a cut line."""
        if position > self.start and self.source[position - 1] != "\n":
            position = _past(_SPACES, self.source, position, self.end)
        return _past(_BLANK_LINES, self.source, position, self.end)

    def render(self, start: int, end: int) -> str:
        # A line that was cut must not open a fence by accident.
        return OPENER.sub(r"\1\\\2\3", self.source[start:end])

    def simplify(self) -> bool:
        """Take up less room for marks; False when it can't."""
        return False


@dataclass(slots=True)
class FenceBlock:
    """A code fence. Each part of it is closed, and opened again with its language."""

    source: str
    start: int
    end: int
    body: tuple[int, int]
    indent: str
    marks: str
    info: str
    style: FenceStyle = "full"

    def cut_at(self, position: int) -> int:
        first, last = self.body
        if position >= self.end:
            return self.end
        position = min(position, last - 1)
        return position if position > first else self.start

    def first_cut(self, after: int) -> int:
        first, last = self.body
        cut = max(after, first) + 1
        return cut if cut < last else self.end

    def resume(self, position: int) -> int:
        first, last = self.body
        if first < position < last and self.source[position] == "\n" and self.source[position - 1] != "\n":
            position += 1
        return self.end if last <= position else position

    def render(self, start: int, end: int) -> str:
        first, last = self.body
        code = self.source[max(start, first) : min(end, last)]
        if end < last:
            code = code.removesuffix("\n")
        if self.style == "plain":
            return OPENER.sub(r"\1\\\2\3", code) + "\n"
        indent = self.indent if start == self.start else ""
        marks = self._marks_around(code)
        opener = f"{indent}{marks}{self.info if self.style == 'full' else ''}\n"
        return opener + (code + "\n" if first < last else "") + f"{indent}{marks}\n"

    def _marks_around(self, code: str) -> str:
        """The marks, longer where a cut line of the code would close the fence."""
        closers = re.findall(
            rf"^[ \t]*({re.escape(self.marks[0])}{{{len(self.marks)},}})[ \t]*$", code, re.MULTILINE
        )
        return self.marks[0] * max([len(self.marks), *(len(each) + 1 for each in closers)])

    def simplify(self) -> bool:
        if self.style == "plain":
            return False
        self.style = "bare" if self.style == "full" and self.info else "plain"
        return True


@dataclass(slots=True)
class TableBlock:
    """A table. It is cut between rows, and each part of it has the header."""

    source: str
    start: int
    end: int
    header: int
    """Where the rows begin, after the header and the line under it."""
    rows: list[int] = field(default_factory=list)
    """Where each row ends."""

    def cut_at(self, position: int) -> int:
        if position >= self.end:
            return self.end
        found = bisect_right(self.rows, position)
        return self.rows[found - 1] if found else self.start

    def first_cut(self, after: int) -> int:
        found = bisect_right(self.rows, after)
        return self.rows[found] if found < len(self.rows) else self.end

    def resume(self, position: int) -> int:
        return position

    def render(self, start: int, end: int) -> str:
        header = self.source[self.start : self.header] if start > self.start else ""
        return header + self.source[start:end]

    def simplify(self) -> bool:
        return False


Block = TextBlock | FenceBlock | TableBlock

_SPACES = re.compile(r"[ \t]*\n?")
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*(?:[^\S\n]*\Z)?")


def _past(pattern: re.Pattern[str], source: str, position: int, end: int) -> int:
    found = pattern.match(source, position, end)
    return found.end() if found is not None else position


def blocks_of(source: str) -> list[Block]:
    """The blocks of a text, one after the other without a gap."""
    return _Reader(source).read()


class _Reader:
    """Goes through the lines once."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0, *(each.end() for each in re.finditer("\n", source))]
        if self._starts[-1] != len(source):
            self._starts.append(len(source))
        self._blocks: list[Block] = []
        self._text_from = 0

    def read(self) -> list[Block]:
        line = 0
        while line < len(self._starts) - 1:
            opener = OPENER.fullmatch(self._line(line))
            if opener is not None:
                line = self._read_fence(line, opener)
            elif self._is_table(line):
                line = self._read_table(line)
            else:
                line += 1
        self._end_text(len(self._source), len(self._source))
        return self._blocks

    def _line(self, number: int) -> str:
        return self._source[self._starts[number] : self._starts[number + 1]].removesuffix("\n")

    def _end_text(self, at: int, text_from: int) -> None:
        if self._text_from < at:
            self._blocks.append(TextBlock(self._source, self._text_from, at))
        self._text_from = text_from

    def _read_fence(self, line: int, opener: re.Match[str]) -> int:
        indent, marks, info = opener.groups()
        closer = re.compile(rf"[ \t]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*")
        last = len(self._starts) - 1
        end = next((each for each in range(line + 1, last) if closer.fullmatch(self._line(each))), last)
        start, first = self._starts[line], self._starts[line + 1]
        stop = self._starts[end]
        if stop > first and self._source[stop - 1] == "\n":
            stop -= 1  # the newline before the closing line is none of the code's
        after = min(end + 1, last)
        self._end_text(start, self._starts[after])
        self._blocks.append(
            FenceBlock(self._source, start, self._starts[after], (first, stop), indent, marks, info)
        )
        return after

    def _is_table(self, line: int) -> bool:
        if line + 2 >= len(self._starts) or "|" not in self._line(line):
            return False
        under = self._line(line + 1).strip()
        cells = under.removeprefix("|").removesuffix("|").split("|")
        return "|" in under and all(DELIMITER_CELL.fullmatch(each.strip()) for each in cells)

    def _read_table(self, line: int) -> int:
        last = len(self._starts) - 1
        end = line + 2
        while end < last and "|" in self._line(end) and OPENER.fullmatch(self._line(end)) is None:
            end += 1
        start = self._starts[line]
        self._end_text(start, self._starts[end])
        rows = [self._starts[each] for each in range(line + 3, end + 1)]
        self._blocks.append(TableBlock(self._source, start, self._starts[end], self._starts[line + 2], rows))
        return end
