"""A small terminal: turns what a program writes into what a person sees, scrolled-off lines included."""

import re
from collections.abc import Callable

from wcwidth import wcwidth

CONTROL = re.compile(
    r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b[=>78]|\x1b\][^\x07]*\x07|([\r\n\b\x07])|([^\x1b\r\n\b\x07])"
)


class TerminalScreen:
    """Rows of cells; the last `height` rows are the screen, the ones before are the scrollback."""

    def __init__(self, height: int, width: int) -> None:
        self.height = height
        self.width = width
        self.rows: list[list[str]] = [[]]
        self.row = 0
        self.column = 0
        self.strange: list[str] = []
        """What is no known control sequence, and should never be sent."""
        self.answers: list[str] = []
        """Where the cursor is, each time the program asked."""
        self.marks: dict[tuple[int, int], str] = {}
        """The colours of each cell, as the codes that were in force when it was written."""
        self.on_frame: Callable[[], None] = lambda: None
        """Called when the program has finished a piece that is shown at once."""
        self._codes: list[str] = []
        self._rest = ""
        self._covered: tuple[list[list[str]], dict[tuple[int, int], str], int, int] | None = None

    def feed(self, text: str) -> None:
        text = self._rest + text
        cut = text.rfind("\x1b")
        # A sequence may be cut in two by the reading.
        self._rest = text[cut:] if cut >= 0 and not CONTROL.match(text, cut) and len(text) - cut < 64 else ""
        text = text[: len(text) - len(self._rest)]
        place = 0
        while place < len(text):
            found = CONTROL.match(text, place)
            if found is None:
                self.strange.append(text[place : place + 20])
                place += 1
                continue
            self._run_command(found)
            place = found.end()

    def resize(self, height: int, width: int, *, wraps: bool = False) -> None:
        """Another size; a terminal that `wraps` breaks rows that are too long now, as most do."""
        self.height, self.width = height, width
        if not wraps:
            return
        rows: list[list[str]] = []
        cursor = self.row
        for number, row in enumerate(self.rows):
            while row and row[-1] == " ":
                row.pop()
            if number == cursor:
                self.row, self.column = len(rows) + self.column // width, self.column % width
            rows += [row[start : start + width] for start in range(0, len(row), width)] or [[]]
        self.rows = rows
        self._down(0)

    def shown(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self.rows)

    def screen(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.rows[-self.height :]]

    @property
    def _top(self) -> int:
        return max(0, len(self.rows) - self.height)

    def _run_command(self, found: "re.Match[str]") -> None:
        if found[4]:
            self._put(found[4])
        elif found[3] == "\r":
            self.column = 0
        elif found[3] == "\n":
            self._down(1)
        elif found[3] == "\b":
            self.column = max(0, self.column - 1)
        elif found[2]:
            self._sequence(found[1], found[2])

    def _put(self, character: str) -> None:
        wide = max(wcwidth(character), 0)
        if self.column + wide > self.width:
            self.column = 0
            self._down(1)
        row = self.rows[self.row]
        row.extend(" " * (self.column + wide - len(row)))
        row[self.column : self.column + wide] = [character, *[""] * (wide - 1)]
        self.marks[self.row, self.column] = ";".join(self._codes)
        self.column += wide

    def _down(self, count: int) -> None:
        self.row += count
        while self.row >= len(self.rows):
            self.rows.append([])

    def _sequence(self, numbers: str, letter: str) -> None:
        given = [int(each) for each in numbers.strip("?").split(";") if each]
        count = given[0] if given else 1
        match letter:
            case "A":
                self.row = max(self._top, self.row - count)
            case "B":
                self._down(count)
            case "C" | "D":
                moved = self.column + (count if letter == "C" else -count)
                self.column = min(self.width - 1, max(0, moved))
            case "H":
                self.row, self.column = self._top, 0
            case "K":
                del self.rows[self.row][self.column :]
            case "J":
                del self.rows[self.row][self.column :]
                del self.rows[self.row + 1 :]
            case "m":
                codes = numbers.split(";")
                self._codes = [] if codes[0] in ("", "0") else self._codes
                self._codes += [code for code in codes if code not in ("", "0")]
            case "n":
                self.answers.append(f"\x1b[{self.row - self._top + 1};{self.column + 1}R")
            case "h" | "l" if numbers in ("?1049", "?2026"):
                self._mode(numbers, on=letter == "h")
            case _:
                pass  # other modes

    def _mode(self, numbers: str, *, on: bool) -> None:
        """Another screen over this one and back, or the beginning and end of what is shown at once."""
        if numbers == "?2026":
            if not on:
                self.on_frame()
        elif on:
            self._covered = (self.rows, self.marks, self.row, self.column)
            self.rows, self.marks, self.row, self.column = [[]], {}, 0, 0
        elif self._covered is not None:
            self.rows, self.marks, self.row, self.column = self._covered
            self._covered = None
