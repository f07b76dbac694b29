"""Plays a chat on a real terminal with a scripted model, and draws what a person sees: `docs/demo.svg`.

`make demo` runs it. The picture is the same each time, so a test can tell whether it is still true.
"""

import io
import re
import sys
import tempfile
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import MONOKAI, TerminalTheme
from rich.text import Text

from tests.cli.real_terminal import Home
from tests.cli.terminal_screen import TerminalScreen

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "demo.svg"
ROWS, COLUMNS = 18, 84
TITLE = "holdfast chat"
LONG = 120.0
SCRIPT = [
    {"tool": "run_command", "arguments": {"command": "wc -l *.md"}},
    "The notes have **5 lines**: three about boats, two about ships.",
    ["Once upon a time a ship left the harbour at dawn, ", LONG, "and never came back."],
    "A short one: it left, it saw the sea, it came home.",
]
# Whoever looks at the picture fetches nothing from elsewhere for it.
OTHERS_FONTS = re.compile(r"\s*@font-face \{\{.*?\n    \}\}", re.DOTALL)

SPENT = re.compile(r"after \d+\.\d s")
"""How long a command took, which differs each time."""


def play(folder: Path) -> TerminalScreen:
    """Hold the conversation; what was shown of it."""
    home = Home(folder)
    home.script(SCRIPT)
    (home.project / "boats.md").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (home.project / "ships.md").write_text("one\ntwo\n", encoding="utf-8")
    terminal = home.terminal("chat", rows=ROWS, columns=COLUMNS)
    terminal.see("ready")
    terminal.type("How long are my notes?")
    terminal.see("wc -l *.md", "y, n or always >")
    terminal.type("y")
    terminal.see("two about ships.", "ready")
    terminal.type("Tell me a long story about a ship.")
    terminal.see("harbour at dawn,")
    terminal.type("Or rather a short one.")
    terminal.see("queued: Or rather a short one.")
    terminal.key("\x03")
    terminal.see("it came home.", "ready")
    # A hint of the interrupt stands in the status line for a moment.
    terminal.see("it came home.", "ready · scripted")
    shown = terminal.screen
    terminal.kill()
    return shown


def drawn(
    screen: TerminalScreen, rows: range | None = None, *, theme: TerminalTheme = MONOKAI, title: str = TITLE
) -> str:
    """The terminal as a picture: all of it, or some of its rows."""
    console = Console(
        record=True, width=screen.width, file=io.StringIO(), force_terminal=True, highlight=False
    )
    for number in rows if rows is not None else range(_last(screen) + 1):
        row = screen.rows[number]
        cells = [(screen.marks.get((number, column), ""), cell) for column, cell in enumerate(row)]
        coloured = "".join(
            f"\x1b[0;{codes}m{''.join(cell for _, cell in alike)}"
            for codes, alike in groupby(cells, key=itemgetter(0))
        )
        console.print(Text.from_ansi(SPENT.sub("after 0.0 s", coloured)), soft_wrap=True)
    plain = OTHERS_FONTS.sub("", CONSOLE_SVG_FORMAT)
    return console.export_svg(title=title, theme=theme, code_format=plain, unique_id="holdfast")


def _last(screen: TerminalScreen) -> int:
    """The last row with anything in it: the status line."""
    return max(number for number, row in enumerate(screen.rows) if "".join(row).strip())


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        picture = drawn(play(Path(folder)))
    PICTURE.write_text(picture, encoding="utf-8")
    sys.stdout.write(f"{PICTURE} is drawn\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
