"""What the agent does is seen on a real terminal: outputs, changes, lists, reasoning; and own commands."""

import re

import pytest

from holdfast.cli.terminal.status_line import SPINNER
from tests.cli.real_terminal import Home, Terminal

pytestmark = pytest.mark.slow  # each starts a chat on a terminal of its own

ESCAPE, INTERRUPT, OPEN, SEARCH = "\x1b", "\x03", "\x0f", "\x12"
FAILING = """echo collected 1 item; seq 1 30; cat <<'END'
=== FAILURES ===
___ test_total ___
>       assert total([1, 2]) == 3
E       assert 4 == 3
1 failed
END
exit 1"""


def colours(terminal: Terminal, text: str) -> set[str]:
    """The colours of a text where it stands last."""
    row = max(number for number, cells in enumerate(terminal.screen.rows) if text in "".join(cells))
    start = "".join(terminal.screen.rows[row]).index(text)
    return {terminal.screen.marks.get((row, start + place), "") for place in range(len(text))}


def test_the_work_of_a_turn_is_seen(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    (home.project / "total.py").write_text("def total(xs):\n    return sum(xs) + 1\n", encoding="utf-8")
    gate = home.project / "gate"
    waits = f"echo first line; while [ ! -e {gate} ]; do sleep 0.05; done; seq 1 20"
    edit = {"path": "total.py", "old": "    return sum(xs) + 1\n", "new": "    return sum(xs)\n"}
    todo = [{"text": "find the fault", "state": "done"}, {"text": "mend it", "state": "in_progress"}]
    home.script(
        [
            [
                {"reasoning": "Deep thoughts about sums."},
                {"tool": "run_command", "arguments": {"command": waits}},
            ],
            {"tool": "run_command", "arguments": {"command": FAILING}},
            {"tool": "todo", "arguments": {"items": todo}},
            {"tool": "edit_file", "arguments": edit},
            "Mended.",
        ]
    )
    terminal = home.terminal("chat", rows=60)
    terminal.see("ready")
    terminal.type("mend it")
    terminal.see("thought, 4 words", "⋯ run_command echo first line", "  first line", "> ")
    gate.touch()
    terminal.see("✓ run_command", "exit code 0", "1", "2", "… 10 more lines (Ctrl-O opens)", "19", "20")
    terminal.see("✗ run_command", "more lines", "=== FAILURES ===", "assert total([1, 2]) == 3", "1 failed")
    terminal.see("✓ todo", "☑ find the fault", "▸ mend it")
    terminal.see(
        "✓ edit_file total.py → +1 -1", "-    return sum(xs) + 1", "+    return sum(xs)", "Mended.", "ready"
    )
    assert colours(terminal, "-    return sum(xs) + 1") == {"31"}
    assert colours(terminal, "+    return sum(xs)") == {"32"}
    terminal.key(OPEN)
    terminal.see("of 4 · edit_file total.py")
    for _ in range(3):
        terminal.key("\x1b[D")
    terminal.see("1 of 4 · reasoning", "Deep thoughts about sums.", "q closes")
    terminal.key("q")
    terminal.see("Mended.", "ready")
    terminal.type("/diff")
    terminal.see("> /diff", "changed total.py +1 -1", "-    return sum(xs) + 1", "+    return sum(xs)")
    terminal.type("/changes")
    terminal.see("> /changes", "changed total.py +1 -1", "/diff all shows them")
    terminal.type("/tools profile small")
    terminal.see("tools: profile small", "standard", "auto for what fits the model")
    terminal.type("/cost")
    terminal.see("> /cost", "the last turn: ", "this conversation: ", "today: ")
    terminal.type("/undo")
    terminal.see("changed files:", "changed total.py +1 -1", "it and the [f]iles, or [l]eave it >")
    terminal.type("f")
    terminal.see("Taken back: mend it", "restored total.py")
    terminal.type("/mode steer")
    terminal.see("restored total.py", "> /mode steer", "mode steer")
    rows = ["".join(row).rstrip() for row in terminal.screen.rows]
    assert rows[rows.index("> /mode steer") - 1] == ""
    assert terminal.leave() == 0
    assert terminal.screen.strange == []
    assert (home.project / "total.py").read_text(encoding="utf-8").endswith("return sum(xs) + 1\n")


def test_a_person_runs_commands_stops_turns_and_searches_what_was_typed(home: Home) -> None:
    home.script([["Once upon a time ", 120.0, "the end."], "I see it."])
    terminal = home.terminal("chat", rows=50)
    terminal.see(">")  # what is typed before all is open waits
    terminal.type("tell me a story")
    terminal.see("Once upon a time", "Esc interrupts")
    terminal.key(ESCAPE)
    terminal.see("interrupted", "What was done is kept.", "ready")
    terminal.type("!echo mine; exit 3")
    terminal.see(
        "> !echo mine", "your own command: not asked about, not in the sandbox", "✗ !", "exit code 3", "mine"
    )
    terminal.see("[a]dd its output to your next message")
    terminal.type("a")
    terminal.see("goes along with your next message", "1 output goes along")
    terminal.key(SEARCH)
    terminal.key("story")
    terminal.see("I-search backward: story")
    terminal.key(INTERRUPT)
    terminal.until(lambda: "I-search" not in "".join(terminal.screen.screen()))
    terminal.key("\x15")  # what the search had found
    terminal.type("what is it?")
    terminal.see("I see it.", "ready")
    terminal.type("/theme none")
    terminal.see("> /theme none", "theme none")
    terminal.type("!sleep 100")
    terminal.see("⋯ ! sleep 100")
    terminal.key(ESCAPE)
    terminal.see("✗ ! sleep 100 → stopped")
    terminal.type("/keys vi")
    terminal.see("keys of vi")
    terminal.key("/modeX steer")
    terminal.see("> /modeX steer")
    terminal.key(ESCAPE)
    terminal.key("0fXx\r")  # to the beginning of the line, to the X, away with it
    terminal.see("> /mode steer", "mode steer: a message sent while a turn runs joins it")
    terminal.type("/keys emacs")  # the next line begins in insert mode
    terminal.see("keys of emacs")
    assert terminal.leave() == 0
    assert home.said()[0] == "tell me a story"
    assert re.fullmatch(
        r"what is it\?\n\nI ran `echo mine; exit 3` \(exit code 3 after .* s\):\n```\nmine\n```",
        home.said()[1],
    )


def test_a_change_is_shown_before_it_is_allowed(home: Home) -> None:
    outside = home.folder / "outside.txt"
    outside.write_text("one\ntwo\nthree\n", encoding="utf-8")
    home.script(
        [{"tool": "write_file", "arguments": {"path": str(outside), "text": "one\n2\nthree\n"}}, "Written."]
    )
    terminal = home.terminal("chat", columns=160, rows=40)
    terminal.see("ready")
    terminal.type("change it")
    terminal.see("Allow this write", "outside.txt", "one", "-two", "+2", "three", "y, n or always >")
    terminal.type("y")
    terminal.see("✓ write_file", "Written.", "ready")
    assert terminal.leave() == 0
    assert outside.read_text(encoding="utf-8") == "one\n2\nthree\n"


def test_the_settings_bring_the_keys_of_vi_and_a_spinner_that_is_quiet(home: Home) -> None:
    home.settings |= {"HOLDFAST_TERMINAL_KEYS": "vi", "HOLDFAST_TERMINAL_SPINNER": "false"}
    home.script([["Thinking of it ", 120.0, "never said"]])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.key("tell nothing of ships")
    terminal.see("> tell nothing of ships")
    terminal.key(ESCAPE)
    terminal.key("bbdwA\r")  # two words back, away with that word, on at the end
    terminal.see("> tell nothing ships", "Thinking of it", "answering ")
    assert not any(sign in terminal.raw for sign in SPINNER)
    terminal.key(INTERRUPT)
    terminal.see("interrupted", "ready")
    assert terminal.leave() == 0
    assert home.said() == ["tell nothing ships"]


def test_a_sign_turns_while_a_turn_runs(home: Home) -> None:
    home.script([["Thinking of it ", 120.0, "never said"]])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("tell")
    terminal.until(lambda: sum(sign in terminal.raw for sign in SPINNER) > 1)
    terminal.key(INTERRUPT)
    terminal.see("interrupted", "ready")
    assert terminal.leave() == 0
