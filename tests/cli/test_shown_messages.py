"""What the terminal shows of a person's messages."""

from typing import cast

from rich.console import RenderableType

from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.theme import look_of
from holdfast.cli.terminal.view import TerminalView
from holdfast.testing.clock import FakeClock

OUTPUT = "I ran `make` (exit code 2 after 0.1 s):\n```\nno rule\n```"


class KeptLines:
    """A screen that keeps what is printed."""

    width = 80

    def __init__(self) -> None:
        self.look = look_of("none", {})
        self.lines: list[str] = []

    def print(self, shown: RenderableType = "", _: str = "") -> None:
        self.lines.append(str(shown))


def shown(text: str, *printed_here: str) -> list[str]:
    screen = KeptLines()
    view = TerminalView(cast("Screen", screen), FakeClock())
    for each in printed_here:
        view.add_output(each)
    view.print_user_message(text)
    return screen.lines


def test_the_output_of_an_own_command_is_one_line_where_it_stands_above_already() -> None:
    assert shown(f"why?\n\n{OUTPUT}", OUTPUT) == [
        "> why?",
        "  ",
        "  I ran `make` (exit code 2 after 0.1 s)",
    ]


def test_the_output_of_an_own_command_is_shown_where_it_was_not_run() -> None:
    assert "  no rule" in shown(f"why?\n\n{OUTPUT}")


def test_a_persons_own_words_are_shown_whole() -> None:
    text = "hello\n\nI ran `make`, and then:\nit failed\nwhy?"
    assert shown(text, OUTPUT) == ["> hello", "  ", "  I ran `make`, and then:", "  it failed", "  why?"]
