"""Windows of every size, two of them on one conversation, and what is pasted into them."""

import re

import pytest

from tests.cli.real_terminal import Home

pytestmark = pytest.mark.slow


def test_a_second_terminal_follows_the_conversation(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    gate = home.project / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    home.script(["Begun.", {"tool": "run_command", "arguments": {"command": wait}}, "Through the gate."])
    first = home.terminal("chat")
    first.see("ready")
    first.type("hello")
    first.see("Begun.", "ready")
    second = home.terminal("chat", "--continue")
    second.see("Begun.", "ready")
    first.type("go through the gate")
    second.see("go through the gate")
    gate.touch()
    first.see("Through the gate.")
    second.see("Through the gate.")
    assert first.leave() == 0
    assert second.leave() == 0


def test_a_resize_in_mid_stream_loses_nothing(home: Home) -> None:
    words = [f"word{number}" for number in range(60)]
    home.script([[" ".join(words[:30]) + " ", 1.0, " ".join(words[30:])]])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("talk")
    terminal.see("word29")
    terminal.resize(15, 40)
    terminal.see("word59", "ready")
    assert terminal.leave() == 0
    final = " ".join(terminal.screen.shown().split())
    assert " ".join(words[-10:]) in final


@pytest.mark.parametrize(("rows", "columns"), [(15, 40), (6, 20), (50, 200)])
def test_a_window_of_any_size_shows_wide_letters_whole(home: Home, rows: int, columns: int) -> None:
    home.script(["漢字 and 🙂 here\n" * 3 + "End."])
    terminal = home.terminal("chat", rows=rows, columns=columns)
    terminal.see("> ")
    terminal.type("emoji 🙂 漢字")
    terminal.see("漢字 and 🙂 here", "End.")
    terminal.see("> ")
    assert terminal.leave() == 0
    assert terminal.screen.strange == []


def test_a_long_pasted_text_is_one_message(home: Home) -> None:
    home.script(["Read."] * 3)  # it nearly fills the window: it may be summarised first
    terminal = home.terminal("chat")
    terminal.see("ready")
    text = "0123456789abcdef\r\n" * 40_000
    terminal.paste(text)
    terminal.see("[pasted text 1:")
    terminal.type("")
    terminal.see("0123456789abcdef", "Read.", "ready")
    assert terminal.leave() == 0
    [length] = [len(message) for message in home.said()]
    assert length == len(text.replace("\r\n", "\n"))


def test_alt_enter_and_a_backslash_begin_a_new_line(home: Home) -> None:
    home.script(["Three lines."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.key("one\x1b\rtwo\\\rthree\r")
    terminal.see("Three lines.", "ready")
    assert terminal.leave() == 0
    assert home.said() == ["one\ntwo\nthree"]


COLOUR = re.compile(r"\b(3|4|9|10)[0-8]\b")
"""The codes that choose a colour of the text or of what is behind it."""


def test_no_colour_is_used_when_none_is_wanted(home: Home) -> None:
    home.script(["**bold** and `code`"])
    terminal = home.terminal("chat", NO_COLOR="1")
    terminal.see("ready")
    terminal.type("hello")
    terminal.see("bold and code", "ready")
    assert terminal.leave() == 0
    styles = re.findall(r"\x1b\[([\d;]*)m", terminal.raw)
    assert styles
    assert not [style for style in styles if COLOUR.search(style)]
