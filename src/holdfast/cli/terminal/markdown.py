"""Markdown while it streams: each finished line becomes what is printed, and a printed line is never changed.

Most lines are printed at once. The lines of a table or of a formula in several lines are held until it is
complete, since only then its widths are known. `inline_text.py` has the styles within a line.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from holdfast.cli.terminal.formulas import formula_text
from holdfast.cli.terminal.inline_text import inline, source_place

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.syntax import Syntax

# Where it can be, no repetition gives back what it took: a line of many blanks would take minutes otherwise.
FENCE = re.compile(r"^\s*+(`{3,}|~{3,})\s*+([\w+#.-]*+)[^`]*$")
HEADING = re.compile(r"^(#{1,6})\s++((?:\S++(?:\s++(?!#*+\s*+$))?)*+)")
ITEM = re.compile(r"^(\s*)[-*+]\s+(.*)$")
TASK = re.compile(r"\[([ xX])\]\s+")
QUOTE = re.compile(r"^\s*>\s?(.*)$")
RULE = re.compile(r"^\s*([-*_])(?:\s*\1){2,}\s*$")
ROW = re.compile(r"^\s*\|.*\S")
BETWEEN_ROWS = re.compile(r"^\s*+\|?\s*+:?-++:?\s*+(?:\|\s*+:?-++:?\s*+)*\|?\s*+$")
CELLS = re.compile(r"(?<!\\)\|")
FORMULA_ENDS = {"$$": "$$", "\\[": "\\]"}
CODE_INDENT = "  "
LONG_CODE_LINE = 2_000
"""A highlighter takes its time on longer lines."""
HIGHLIGHTED_WITH = 40
"""Lines of code before a line that are read with it, so that a text over several lines has its colour."""


class MarkdownLines:
    """The lines of one answer."""

    def __init__(self, code_theme: str = "ansi_dark") -> None:
        self._code_theme = code_theme
        self._fence = ""
        self._code: Syntax | None = None
        self._before: list[str] = []
        self._held: list[str] = []
        self._closes = ""
        """The line that ends the formula which is held; empty for a table."""

    @property
    def holds(self) -> bool:
        """Whether lines are held until their block is complete."""
        return bool(self._held)

    def add(self, line: str, *, continued: bool = False) -> "list[RenderableType]":
        """What to print for a finished line.

        `continued`: the line's beginning was printed before, so this is no heading, item or fence.
        """
        if self._closes:
            return self._in_formula(line)
        if self._fence:
            return self._in_code(line, continued=continued)
        if continued:
            return [inline(line)]
        if is_row(line):
            self._held.append(line)
            return []
        ended = self.end()
        if fence := FENCE.match(line):
            self._open_fence(fence[1], fence[2])
            return ended
        if line.strip() in FORMULA_ENDS:
            self._closes = FORMULA_ENDS[line.strip()]
            self._held.append(line)
            return ended
        return [*ended, prose(line)]

    def end(self) -> "list[RenderableType]":
        """What to print of the lines that are held, since nothing follows in their block."""
        held, self._held = self._held, []
        formula, self._closes = bool(self._closes), ""
        if formula or not is_table(held):
            return [Text(line) for line in held]
        return [table_of(held)]

    def open_block(self) -> "list[RenderableType]":
        """The lines that are held, as they would be printed now."""
        if not self._closes and is_table(self._held):
            return [table_of(self._held)]
        return [Text(line, "quiet") for line in self._held]

    def open_line(self, line: str, *, continued: bool = False) -> Text:
        """A line that may still change, with its styles as far as they can be told."""
        if self._held and (self._closes or is_row(line)):
            return Text(line, "quiet")
        if self._fence:
            return Text() if _may_close(line, self._fence) else self._code_line(line, continued=continued)
        return inline(line) if continued else Text(line, "quiet") if FENCE.match(line) else prose(line)

    def source_place(self, line: str, shown: int, *, continued: bool = False) -> int:
        """The position in a line that follows the first `shown` characters of its styled form."""
        if self._fence:
            return max(0, shown - (0 if continued else len(CODE_INDENT)))
        if continued:
            return source_place(line, shown)
        if FENCE.match(line):
            return shown
        if RULE.match(line):
            return len(line)
        start, mark = _body(line)
        return source_place(line, shown - mark, start)

    # code

    def _open_fence(self, fence: str, language: str) -> None:
        # Imported here, so that only an answer with code pays for the highlighter.
        from rich.syntax import Syntax

        self._fence, self._before = fence, []
        self._code = Syntax("", language or "text", theme=self._code_theme, background_color="default")

    def _in_code(self, line: str, *, continued: bool) -> "list[RenderableType]":
        fence = None if continued else FENCE.match(line)
        if fence and fence[1].startswith(self._fence) and not fence[2]:
            self._fence, self._code = "", None
            return []
        shown = self._code_line(line, continued=continued)
        self._before = [*self._before, line][-HIGHLIGHTED_WITH:]
        return [shown]

    def _code_line(self, line: str, *, continued: bool) -> Text:
        indent = "" if continued else CODE_INDENT
        if self._code is None or len(line) > LONG_CODE_LINE or continued:
            return Text(indent + line)
        read = [each for each in self._before if len(each) <= LONG_CODE_LINE]
        coloured = self._code.highlight("\n".join([*read, line])).split("\n", allow_blank=True)
        text = coloured[len(read)] if len(read) < len(coloured) else Text(line)
        text.rstrip()
        text.no_wrap = False
        return Text.assemble(indent, text)

    # formulas

    def _in_formula(self, line: str) -> "list[RenderableType]":
        if line.strip() != self._closes and not line.rstrip().endswith(self._closes):
            self._held.append(line)
            return []
        rest = line.rstrip().removesuffix(self._closes)
        tex = "\n".join([*self._held[1:], rest])
        self._held, self._closes = [], ""
        return [Text(f"  {each}", "formula") for each in formula_text(tex).split("\n")]


def is_row(line: str) -> bool:
    """Whether a line looks like a row of a table."""
    return bool(ROW.match(line))


def is_table(lines: Sequence[str]) -> bool:
    """Whether the lines begin as a table does: names, then a row of dashes."""
    return len(lines) > 1 and bool(BETWEEN_ROWS.match(lines[1])) and "-" in lines[1]


def table_of(lines: Sequence[str]) -> "RenderableType":
    """A table whose columns fit the width that it is printed in."""
    from rich import box
    from rich.table import Table

    names, dashes, *rows = [_cells(line) for line in lines]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="heading")
    for number, name in enumerate(names):
        mark = dashes[number] if number < len(dashes) else ""
        right, left = mark.endswith(":"), mark.startswith(":")
        table.add_column(
            inline(name),
            justify="center" if right and left else "right" if right else "left",
            overflow="fold",
        )
    for row in rows:
        cells = [inline(cell) for cell in row[: len(names)]]
        table.add_row(*cells)
    return table


def prose(line: str) -> Text:
    """A line outside of code with its styles."""
    if heading := HEADING.match(line):
        return inline(heading[2], "title" if len(heading[1]) == 1 else "heading")
    if RULE.match(line):
        return Text("─" * 20, "quiet")
    start, _ = _body(line)
    if item := ITEM.match(line):
        task = TASK.match(line, item.start(2))
        bullet = "• " if task is None else "☐ " if task[1] == " " else "☑ "
        return Text.assemble(item[1], (bullet, "bullet"), inline(line, start=start))
    if QUOTE.match(line):
        return Text.assemble(("│ ", "quiet"), inline(line, "quoted", start=start))
    return inline(line)


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|")
    if inner.endswith("|") and not inner.endswith("\\|"):
        inner = inner[:-1]
    return [cell.strip().replace("\\|", "|") for cell in CELLS.split(inner)]


def _body(line: str) -> tuple[int, int]:
    """Where the text of a line begins in its source, and in its styled form."""
    if heading := HEADING.match(line):
        return heading.start(2), 0
    if item := ITEM.match(line):
        task = TASK.match(line, item.start(2))
        return task.end() if task else item.start(2), len(item[1]) + 2
    if quote := QUOTE.match(line):
        return quote.start(1), 2
    return 0, 0


def _may_close(line: str, fence: str) -> bool:
    """Whether an open line of code may become the end of the code."""
    written = line.strip()
    return bool(written) and fence.startswith(written[:3]) and not written.strip(fence[0])
