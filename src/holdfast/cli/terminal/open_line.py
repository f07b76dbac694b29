"""`OpenLine`: the line of an answer that is still being written, in rows as it will be printed.

While it is open it is shown above the prompt and can change, with each word, when bold text closes, and
when the window gets another width. A finished line is printed to the scrollback once. Read `screen.py`
first.
"""

from rich.text import Text

from holdfast.cli.terminal.markdown import MarkdownLines, cut_before
from holdfast.cli.terminal.screen import Screen

OTHER_ROWS = 8
"""Rows kept free for the input, the status, tools and waiting messages."""


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
        self._markdown = MarkdownLines()
        self._text = ""
        self._continued = False
        self._shown: tuple[str, int, list[str]] = ("", 0, [])

    def begin_anew(self) -> None:
        """Begin another answer: an open code block ends."""
        self.close()
        self._markdown = MarkdownLines()

    def feed(self, text: str) -> None:
        """Add text of the answer, which is clean already."""
        *lines, rest = (self._text + text).split("\n")
        for line in lines:
            self._print(line)
            self._continued = False
        self._text = rest
        self._print_overflow()

    def close(self) -> None:
        """Print the rest of the line."""
        if self._text:
            self._print(self._text)
        self._text, self._continued = "", False

    def rows(self) -> list[str]:
        """The open line as it would be printed now, with its colours as escape sequences."""
        if not self._text:
            return []
        width = self._screen.width
        if self._shown[:2] != (self._text, width):
            styled = self._markdown.styled(self._text, continued=self._continued, keep=False)
            rows = self._screen.rendered(styled).rstrip("\n").split("\n")
            self._shown = (self._text, width, rows)
        return self._shown[2]

    def leave_behind(self, kept: str) -> None:
        """The terminal kept the beginning of the line in its scrollback; only the rest stays open."""
        text, _, rows = self._shown
        drawn = Text.from_ansi("\n".join(rows)).plain
        place = _end_of(kept, drawn)
        if place is None or text != self._text:
            return
        styled = self._markdown.styled(text, continued=self._continued, keep=False).plain
        shown = _place_in(styled, drawn[:place])
        self._text = text[self._markdown.source_place(text, shown, continued=self._continued) :]
        self._continued = True

    def _print(self, line: str) -> None:
        self._shown = ("", 0, [])
        self._screen.print(self._markdown.styled(line, continued=self._continued))

    def _print_overflow(self) -> None:
        """Print the beginning of a line that needs more rows than it may have."""
        most, width = most_rows(self._screen.height), self._screen.width
        if len(self._text) < most * width // 2:
            return
        wrapped = Text(self._text).wrap(self._screen.console(), width)
        if len(wrapped) <= most:
            return
        cut = cut_before(self._text, self._text.rindex(wrapped[-1].plain))
        self._print(self._text[:cut].rstrip(" "))
        self._text, self._continued = self._text[cut:], True


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
