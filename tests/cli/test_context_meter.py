"""The status line says how full the model's window is, whichever way a conversation was come to."""

import re

import pytest

from tests.cli.real_terminal import Home, Terminal

pytestmark = pytest.mark.slow

LONG = "0123456789abcde\r\n" * 4_000  # about 16,000 tokens


def meter(terminal: Terminal, *after: str) -> int:
    """Tokens in use, once the texts are shown with a meter below them."""
    terminal.see(*after, "/128k")
    number, thousands = re.findall(r"([\d.]+)(k?)/128k", terminal.screen.shown())[-1]
    return int(float(number) * (1_000 if thousands else 1))


def long_conversation(home: Home) -> tuple[Terminal, int]:
    terminal = home.terminal("chat", rows=50)
    terminal.see("ready")
    assert "/128k" not in terminal.screen.shown(), "before a conversation has begun nothing is known"
    terminal.paste(LONG)
    terminal.see("[pasted text 1:")
    terminal.type("")
    return terminal, meter(terminal, "Read.", "ready")


def test_a_conversation_that_is_copied_left_and_come_back_to_is_measured_at_once(home: Home) -> None:
    home.script(["Read.", "Short."])
    terminal, full = long_conversation(home)
    assert full >= 16_000
    terminal.type("/branch")
    assert meter(terminal, "This goes on in a copy") == full
    terminal.type("/new")
    empty = meter(terminal, "A new conversation.")
    assert 0 < empty < full - 15_000, "the instructions and the tools alone"
    terminal.type("/sessions")
    terminal.see("> /sessions", "msg")
    terminal.type("/resume 2")
    assert meter(terminal, "> /resume 2", "Read.") == full
    terminal.type("/undo")
    assert meter(terminal, "Taken back:") == empty
    terminal.type("/clear")
    assert meter(terminal, "The conversation is ended") == empty
    assert terminal.leave() == 0


def test_a_conversation_of_an_earlier_start_is_measured_at_once(home: Home) -> None:
    home.script(["Read."])
    terminal, full = long_conversation(home)
    assert terminal.leave() == 0
    again = home.terminal("chat", "--continue", rows=50)
    assert meter(again, "Read.") == full
    assert again.leave() == 0


def test_a_compacted_conversation_is_measured_at_once(home: Home) -> None:
    home.script(["Read.", "Short.", "What was said, in short."])
    terminal, full = long_conversation(home)
    terminal.type("and on")
    terminal.see("Short.", "ready")
    terminal.type("/compact")
    terminal.see("compacted:", "/128k")
    assert 0 < meter(terminal, "compacted:") < full
    assert terminal.leave() == 0
