"""A conversation on a real terminal."""

import pytest

from tests.cli.real_terminal import Home, run

pytestmark = pytest.mark.slow  # each starts a chat on a terminal of its own

INTERRUPT = "\x03"
SLOW_COMMAND = {"tool": "run_command", "arguments": {"command": "sleep 120"}}


def test_a_conversation_is_held_and_kept(home: Home) -> None:
    home.script(["The first answer.", "The second answer."])
    terminal = home.terminal("chat")
    terminal.see("Holdfast with scripted")
    terminal.type("first words")
    terminal.see("The first answer.", "ready")
    terminal.type("second words")
    terminal.see("The second answer.", "ready")
    assert terminal.leave() == 0
    again = home.terminal("chat", "--continue")
    again.see("second words", "The second answer.", "ready")
    assert again.leave() == 0


@pytest.mark.clause("I1")
def test_what_is_typed_while_a_turn_runs_is_queued_and_runs_next(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    gate = home.project / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    home.script([{"tool": "run_command", "arguments": {"command": wait}}, "First done.", "Then this."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("begin")
    terminal.see("running run_command")
    terminal.type("typed meanwhile")
    terminal.see("queued: typed meanwhile")
    gate.touch()
    terminal.see("First done.", "> typed meanwhile", "Then this.", "ready")
    assert terminal.leave() == 0


@pytest.mark.clause("I2", "I6")
def test_ctrl_c_stops_a_turn_that_hangs_and_what_was_typed_runs_next(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    home.script([SLOW_COMMAND, "After the interrupt."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("hang")
    terminal.see("sleep 120")
    terminal.type("go on with this")
    terminal.see("queued: go on with this")
    terminal.key(INTERRUPT)
    terminal.see("interrupted", "go on with this", "After the interrupt.", "ready")
    assert terminal.leave() == 0


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [("y", "✓ run_command"), ("n", "✗ run_command"), ("/approve always", "✓ run_command")],
)
def test_a_command_is_asked_about_in_place(home: Home, answer: str, outcome: str) -> None:
    home.script([{"tool": "run_command", "arguments": {"command": "echo done-it"}}, "Finished."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("do it")
    terminal.see("Allow this command?", "echo done-it", "always: exactly this", "y, n or always")
    terminal.type(answer)
    terminal.see(f"answered: {answer.removeprefix('/approve ')}", outcome, "Finished.", "ready")
    assert terminal.leave() == 0


def test_always_is_not_offered_for_what_cannot_be_undone(home: Home) -> None:
    (home.project / "precious").mkdir()
    home.script([{"tool": "run_command", "arguments": {"command": "rm -r precious"}}, "Finished."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("do it")
    terminal.see("This can't be undone. Allow this command", "rm -r precious", "y or n >")
    terminal.type("always")
    terminal.see("can be allowed only once", "y or n >")
    assert "always >" not in terminal.screen.shown()
    terminal.type("n")
    terminal.see("answered: n", "Finished.", "ready")
    assert terminal.leave() == 0
    assert (home.project / "precious").exists()


def test_of_two_commands_asked_about_at_once_only_the_one_shown_is_answered(home: Home) -> None:
    calls = [{"tool": "run_command", "arguments": {"command": f"touch made-{each}"}} for each in "ab"]
    home.script([calls, "Finished."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("do both")
    terminal.see("Allow this command?", "touch made-", "y, n or always")
    first, second = ("a", "b") if "touch made-a\n  always" in terminal.screen.shown() else ("b", "a")
    terminal.type("n")
    terminal.see("answered: n", f"touch made-{second}", "y, n or always")
    terminal.type("y")
    terminal.see("answered: y", "Finished.", "ready")
    assert terminal.leave() == 0
    assert terminal.screen.shown().count("Allow this command?") == 2
    assert not (home.project / f"made-{first}").exists()
    assert (home.project / f"made-{second}").exists()


@pytest.mark.clause("I1")
def test_a_message_that_steers_joins_the_running_turn(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    gate = home.project / "gate"
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    home.script([{"tool": "run_command", "arguments": {"command": wait}}, "Steered."])
    terminal = home.terminal()
    terminal.see("ready")
    terminal.type("/mode steer")
    terminal.type("begin")
    terminal.see("running run_command")
    terminal.type("to the left")
    terminal.see("steers: to the left")
    gate.touch()
    terminal.see("(joins) to the left", "Steered.", "ready")
    assert terminal.leave() == 0


def test_a_question_of_the_agent_is_answered_in_place(home: Home) -> None:
    ask = {"tool": "ask_user", "arguments": {"question": "Which colour?", "choices": ["red", "blue"]}}
    home.script([ask, "Blue it is."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("paint")
    terminal.see("Which colour?", "1. red", "2. blue", "answer >")
    terminal.type("2")
    terminal.see("Blue it is.", "ready")
    assert terminal.leave() == 0


def test_two_ctrl_c_leave(home: Home) -> None:
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.key(INTERRUPT)
    terminal.see("Ctrl-C again")
    terminal.key(INTERRUPT)
    terminal.see("leaving")
    assert terminal.end() == 0


def test_escape_sequences_of_a_model_never_reach_the_terminal(home: Home) -> None:
    home.script(["a\x1b]0;stolen title\x07b \x1b[2Jc \x9b31md e\x08\x08f"])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("attack")
    terminal.see("ab c 31md ef", "ready")
    assert terminal.leave() == 0
    assert "stolen" not in terminal.raw
    assert "\x1b[2J" not in terminal.raw
    assert "\x9b" not in terminal.raw
    assert "\b\b" not in terminal.raw
    assert terminal.screen.strange == []


def test_a_file_in_a_message_is_one_of_the_workspace_and_a_slip_is_told(home: Home) -> None:
    chosen = home.folder / "chosen"
    chosen.mkdir()
    (chosen / "tides.md").write_text("high at noon", encoding="utf-8")
    home.script(["I have read it.", "I have not."])
    terminal = home.terminal("chat", "--workspace", str(chosen), columns=160)
    terminal.see("ready")
    terminal.key("read @ti\t")
    terminal.see("read @tides.md")
    terminal.type("")
    terminal.see("I have read it.", "ready")
    terminal.type("read @tide.md, @someone")
    terminal.see("There is no file tide.md in", "@tide.md is sent as a word", "I have not.", "ready")
    assert "no file someone" not in terminal.screen.shown()
    assert terminal.leave() == 0
    home.script(["Read again."])
    asked = run(home, "ask", "--workspace", str(chosen), "@tides.md and @tides/all")
    assert "There is no file tides/all in" in asked.stderr
    said = home.said()
    assert ["high at noon" in each for each in said] == [True, False, True]
