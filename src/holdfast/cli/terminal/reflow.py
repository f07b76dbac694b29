"""What a terminal does to long rows when its window becomes narrower.

Most terminals wrap them again, so the prompt and the lines above it take more rows than were drawn, and the
first rows stay on the screen when it is drawn again. Others (xterm, screen, the console) cut rows off. A
terminal can't be asked which it does; those that wrap set known variables in the environment.
"""

from collections.abc import Mapping, Sequence

from rich.cells import chop_cells

CUTS_OFF = ("STY",)
WRAPS = (
    "TMUX",
    "VTE_VERSION",
    "KITTY_WINDOW_ID",
    "WEZTERM_PANE",
    "ALACRITTY_WINDOW_ID",
    "KONSOLE_VERSION",
    "WT_SESSION",
)
PROGRAMS = ("Apple_Terminal", "iTerm.app", "vscode", "WezTerm", "ghostty", "tmux")


def wraps_anew(environment: Mapping[str, str]) -> bool:
    """Whether the terminal wraps rows anew when its window becomes narrower."""
    if any(name in environment for name in CUTS_OFF):
        return False
    return any(name in environment for name in WRAPS) or environment.get("TERM_PROGRAM") in PROGRAMS


def left_above(lines: Sequence[str], typed: str, before: int, after: int) -> list[str]:
    """The rows that stay on the screen when a prompt drawn in `before` columns is erased at `after` columns.

    `lines` are the lines above the input, and `typed` is the input up to the cursor.
    """
    above = [part for line in lines for part in _parts(line, after)]
    input_rows = [row for line in typed.split("\n") for row in _parts(line, before)]
    there = len(above) + sum(len(_parts(row, after)) for row in input_rows)
    return above[: max(0, there - len(lines) - len(input_rows))]


def _parts(row: str, width: int) -> list[str]:
    return chop_cells(row, width) or [""]
