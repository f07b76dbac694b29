"""What is too long for the conversation is folded, and a key opens it: outputs of tools, and reasoning.

`Folds` keeps the whole texts, `shortened` says which lines of an output stay visible. `viewer.py` shows one.
"""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

SHOWN_LINES = 12
TRACEBACK_LINES = 40
"""Lines of a traceback that stay visible when a command has failed."""
FIRST_LINES = 3
KEPT = 100
"""How many folded texts can still be opened."""
KEPT_CHARACTERS = 200_000
"""Characters of one of them."""
OPEN_KEY = "Ctrl-O"
# The beginning of what explains a failure: of pytest, of Python, of Go and of Rust.
SECTIONS = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$")
TRACEBACKS = re.compile(
    r"^(?:Traceback \(most recent call last\)|_{3,} .* _{3,}$|\s*--- FAIL|panic: |thread '.*' panicked)"
)


@dataclass(frozen=True, slots=True)
class Fold:
    """A whole text that is shown in part."""

    title: str
    text: str


class Folds:
    """The texts of one conversation that can be opened, the oldest first."""

    def __init__(self) -> None:
        self._kept: deque[Fold] = deque(maxlen=KEPT)

    def keep(self, title: str, text: str) -> None:
        """Keep a text; of a very long one the end."""
        if len(text) > KEPT_CHARACTERS:
            cut = len(text) - KEPT_CHARACTERS
            text = f"[{cut:,} characters before this are not kept here]\n{text[cut:]}"
        self._kept.append(Fold(title, text))

    def all(self) -> list[Fold]:
        return list(self._kept)


@dataclass(frozen=True, slots=True)
class Shortened:
    """Some first lines, how many are left out, and some last lines."""

    first: Sequence[str]
    hidden: int
    last: Sequence[str]


def shortened(lines: Sequence[str], *, failed: bool = False) -> Shortened:
    """The lines of an output that stay visible: the beginning and the end, or what explains a failure."""
    if len(lines) <= SHOWN_LINES:
        return Shortened(lines, 0, ())
    if not failed:
        last = SHOWN_LINES - FIRST_LINES - 1
        return Shortened(lines[:FIRST_LINES], len(lines) - FIRST_LINES - last, lines[-last:])
    start = _explanation(lines)
    if start is None:
        start = len(lines) - SHOWN_LINES + 1
    shown = lines[max(start, len(lines) - TRACEBACK_LINES) :]
    hidden = len(lines) - len(shown)
    return Shortened((), hidden, shown) if hidden else Shortened(lines, 0, ())


def _explanation(lines: Sequence[str]) -> int | None:
    for pattern in (SECTIONS, TRACEBACKS):
        found = [number for number, line in enumerate(lines) if pattern.match(line)]
        if found:
            return found[0] if pattern is SECTIONS else found[-1]
    return None


def hidden_lines(number: int) -> str:
    """The line that stands where others were left out."""
    return f"… {number} more {'line' if number == 1 else 'lines'} ({OPEN_KEY} opens)"
