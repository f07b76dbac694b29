"""Shows folded texts in the whole window: outputs of tools, changes of files, reasoning."""

from collections.abc import Sequence

from prompt_toolkit.formatted_text import ANSI, AnyFormattedText
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Window
from rich.text import Text

from holdfast.cli.terminal.diff_text import coloured, looks_like_diff
from holdfast.cli.terminal.folds import Fold
from holdfast.cli.terminal.screen import Screen
from holdfast.core.clean_text import one_line

BARS = 2
KEYS = "↑ ↓ PgUp PgDn move · ← → others · q closes"


class FoldPages:
    """Folded texts, of which one is looked at."""

    def __init__(self, screen: Screen, folds: Sequence[Fold]) -> None:
        self._screen = screen
        self._folds = folds
        self._at = len(folds) - 1
        self._top = 0
        self._rows: list[str] = []
        self._width = 0
        self._read()

    def turn(self, step: int) -> None:
        """Look at another one."""
        self._at = min(max(0, self._at + step), len(self._folds) - 1)
        self._top = 0
        self._read()

    def move(self, step: int) -> None:
        """Move up or down by rows."""
        self._top = min(max(0, self._top + step), max(0, len(self._rows) - self.height))

    @property
    def height(self) -> int:
        return max(1, self._screen.height - BARS)

    def head(self) -> AnyFormattedText:
        fold = self._folds[self._at]
        count = f"{self._at + 1} of {len(self._folds)}"
        return [("class:you", one_line(f"{count} · {fold.title}", self._screen.width - 1))]

    def body(self) -> AnyFormattedText:
        if self._width != self._screen.width:
            self._read()
        return ANSI("\n".join(self._rows[self._top : self._top + self.height]))

    def foot(self) -> AnyFormattedText:
        last = min(self._top + self.height, len(self._rows))
        place = f" {self._top + 1} to {last} of {len(self._rows)} · {KEYS}"
        return [("class:live", one_line(place, self._screen.width - 1))]

    def _read(self) -> None:
        lines = self._folds[self._at].text.split("\n")
        is_diff = looks_like_diff(lines) or _is_change(self._folds[self._at].title)
        text = Text("\n").join(coloured(line) if is_diff else Text(line) for line in lines)
        self._width = self._screen.width
        self._rows = self._screen.rows(text)


def _is_change(title: str) -> bool:
    return title.startswith(("edit_file ", "write_file ", "changes "))


async def view_folds(screen: Screen, folds: Sequence[Fold]) -> None:
    """Show folded texts, the newest first, until the person closes them."""
    pages = FoldPages(screen, folds)
    parts = [
        Window(FormattedTextControl(pages.head), height=1),
        Window(FormattedTextControl(pages.body, show_cursor=False), wrap_lines=False),
        Window(FormattedTextControl(pages.foot), height=1),
    ]
    await screen.full_screen(parts, _keys(pages))


def _keys(pages: FoldPages) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("q")
    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("c-o")
    @keys.add("c-d")
    def _close(event: KeyPressEvent) -> None:
        event.app.exit()

    steps = {"up": -1, "k": -1, "down": 1, "j": 1, "enter": 1}
    for key, step in steps.items():
        keys.add(key)(lambda _, step=step: pages.move(step))
    for key, pieces in {"pageup": -1, "pagedown": 1, "space": 1}.items():
        keys.add(key)(lambda _, pieces=pieces: pages.move(pieces * (pages.height - 1)))
    for key, end in {"home": -1, "g": -1, "end": 1, "G": 1}.items():
        keys.add(key)(lambda _, end=end: pages.move(end * 10**9))
    for key, other in {"left": -1, "right": 1}.items():
        keys.add(key)(lambda _, other=other: pages.turn(other))
    return keys
