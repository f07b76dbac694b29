"""`OpenLine`: the part of an answer that is still being written, in rows as it will be printed.

While it is open it is shown above the prompt and can change, with each word, when bold text closes, and
when the window gets another width. A finished line is printed to the scrollback once; the lines of a table
together, when it is complete. Read `screen.py` first.
"""

from rich.console import RenderableType
from rich.text import Text

from holdfast.cli.terminal.inline_text import cut_before
from holdfast.cli.terminal.markdown import MarkdownLines, is_row
from holdfast.cli.terminal.screen import Screen

OTHER_ROWS = 8
"""Rows kept free for the input, the status, tools and waiting messages."""

LONGEST_ROW = 4_000


def most_rows(height: int) -> int:
    """Rows of a window that the open line may take: a third.

    The rest is for the scrollback and the prompt. A window that becomes half as wide still has room for the
    line.
    """
    return max(1, min(height // 3, height - OTHER_ROWS))


class OpenLine:
    """Prints lines as they end, and keeps the one that has not."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._markdown = MarkdownLines(screen.look.code)
        self._text = ""
        self._continued = False
        self._shown: tuple[str, int, list[str]] = ("", 0, [])

    def begin_anew(self) -> None:
        """Begin another answer: an open code block ends."""
        self.close()
        self._markdown = MarkdownLines(self._screen.look.code)

    def feed(self, text: str) -> None:
        """Add text of the answer, which is clean already."""
        *lines, rest = (self._text + text).split("\n")
        for line in lines:
            self._print(self._markdown.add(line, continued=self._continued))
            self._continued = False
        self._text = rest
        self._print_overflow()

    def close(self) -> None:
        """Print the rest of the line, and what was held for its block."""
        if self._text:
            self._print(self._markdown.add(self._text, continued=self._continued))
        self._text, self._continued = "", False
        self._print(self._markdown.end())

    def rows(self) -> list[str]:
        """The open part as it would be printed now, with its colours as escape sequences."""
        if not self._text and not self._markdown.holds:
            return []
        width = self._screen.width
        if self._shown[:2] != (self._text, width):
            shown = self._markdown.open_block()
            if self._text:
                shown.append(self._markdown.open_line(self._text, continued=self._continued))
            rows = [row for each in shown for row in self._screen.rows(each)]
            self._shown = (self._text, width, rows)
        return self._shown[2]

    def leave_behind(self, kept: str) -> None:
        """The terminal kept the beginning of the line in its scrollback; only the rest stays open."""
        text, _, rows = self._shown
        drawn = Text.from_ansi("\n".join(rows)).plain
        place = _end_of(kept, drawn)
        # A table is printed as a whole, whatever was left of it.
        if place is None or text != self._text or self._markdown.holds:
            return
        styled = self._markdown.open_line(text, continued=self._continued).plain
        shown = _place_in(styled, drawn[:place])
        self._text = text[self._markdown.source_place(text, shown, continued=self._continued) :]
        self._continued = True

    def _print(self, shown: list[RenderableType]) -> None:
        self._shown = ("", 0, [])
        for each in shown:
            self._screen.print(each)

    def _print_overflow(self) -> None:
        """Print the beginning of a line that needs more rows than it may have."""
        most, width = most_rows(self._screen.height), self._screen.width
        if len(self._text) < most * width // 2 or self._waits_for_its_end():
            return
        wrapped = Text(self._text).wrap(self._screen.console(), width)
        if len(wrapped) <= most:
            return
        place = self._text.rindex(wrapped[-1].plain)
        cut = cut_before(self._text, place)
        if len(Text(self._text[cut:]).wrap(self._screen.console(), width)) > most:
            cut = place  # a long address is cut rather than hidden
        self._print(self._markdown.add(self._text[:cut].rstrip(" "), continued=self._continued))
        self._text, self._continued = self._text[cut:], True

    def _waits_for_its_end(self) -> bool:
        """Whether the line may be a table's row, which can't be cut; no real one is as long as some lines."""
        return self._markdown.holds or (is_row(self._text) and len(self._text) < LONGEST_ROW)


def _end_of(kept: str, drawn: str) -> int | None:
    """How far the kept characters go in the drawn rows; None when they are not their beginning."""
    place = 0
    for character in kept:
        if place < len(drawn) and drawn[place] == "\n":
            place += 1
        if place == len(drawn):
            break  # what follows belongs to other lines
        if drawn[place] != character:
            return None
        place += 1
    return place + (place < len(drawn) and drawn[place] == "\n")


def _place_in(styled: str, rows: str) -> int:
    """How far the rows go in the text that they are the wrapped form of: wrapping drops spaces."""
    place = 0
    for character in rows:
        if character == "\n":
            while place < len(styled) and styled[place] == " ":
                place += 1
        else:
            place += 1
    return place
