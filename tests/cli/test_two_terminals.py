"""Two terminals on one conversation: the second follows, answers what is asked, and can stop the turn."""

import pytest

from tests.cli.real_terminal import Home

pytestmark = pytest.mark.slow  # each starts a chat on a terminal of its own

LONG = 120.0


def test_the_second_terminal_sees_the_answer_as_it_comes_and_ctrl_c_there_stops_it(home: Home) -> None:
    home.script(["Hello.", ["alpha beta ", 0.8, "gamma ", LONG, "never"]])
    first = home.terminal("chat")
    first.see("ready")
    first.type("hi")
    first.see("Hello.", "ready")
    second = home.terminal("chat", "--continue")
    second.see("Hello.", "ready")
    first.type("tell me")
    first.see("gamma")
    second.see("> tell me", "alpha beta")
    second.key("\x03")
    second.see("interrupted. What was done is kept.")
    first.see("interrupted. What was done is kept.")
    assert "never" not in first.screen.shown() + second.screen.shown()
    assert second.leave() == 0
    assert first.leave() == 0


@pytest.mark.clause("I5")
def test_what_is_asked_in_one_terminal_is_answered_in_the_other(home: Home) -> None:
    script = [
        "Hello.",
        {"tool": "ask_user", "arguments": {"question": "Which colour?", "choices": ["red", "blue"]}},
        {"tool": "run_command", "arguments": {"command": "echo made > made.txt"}},
        "Thanks.",
    ]
    home.script(script)
    first = home.terminal("chat")
    first.see("ready")
    first.type("hi")
    first.see("Hello.", "ready")
    second = home.terminal("chat", "--continue")
    second.see("Hello.", "ready")
    first.type("go")
    second.see("Which colour?", "1. red", "2. blue", "answer >")
    second.type("2")
    first.see("answered: 2")
    second.see("Allow this command", "echo made", "y, n or always >")
    second.type("y")
    first.see("answered: y", "Thanks.", "ready")
    second.see("Thanks.", "ready")
    assert (home.project / "made.txt").read_text() == "made\n"
    assert second.leave() == 0
    assert first.leave() == 0
