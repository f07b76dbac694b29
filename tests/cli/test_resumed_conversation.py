"""A conversation that is gone on with looks as it did while it ran."""

import pytest

from tests.cli.real_terminal import Home

pytestmark = pytest.mark.slow

FAILING = "seq 1 30; echo 'ValueError: no'; exit 1"
ANSWER = "**Done**:\n\n| file | lines |\n|---|---|\n| total.py | 2 |\n\n```python\nreturn 1\n```\n"


@pytest.mark.parametrize("way", ["--continue", "/resume"])
def test_the_last_turn_is_shown_with_its_cards_and_as_markdown(home: Home, way: str) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    (home.project / "total.py").write_text("one\ntwo\n", encoding="utf-8")
    write = {"tool": "write_file", "arguments": {"path": "total.py", "text": "one\n2\n"}}
    home.script(
        [
            "Hello.",
            [{"reasoning": "Let me see."}, {"tool": "run_command", "arguments": {"command": FAILING}}],
            write,
            ANSWER,
        ]
    )
    terminal = home.terminal("chat", rows=60)
    terminal.see("ready")
    for said, answer in (("hello", "Hello."), ("change it", "return 1")):
        terminal.type(said)
        terminal.see(answer, "ready")
    assert terminal.leave() == 0
    live = _since(terminal.screen.screen(), "> change it")

    again = home.terminal("chat", *([way] if way.startswith("--") else []), rows=60)
    again.see("ready")
    if way == "/resume":
        again.type("/resume")
        again.see("1 conversation fits")
        again.key("\r")
    again.see("… 2 earlier messages", "> change it", "return 1", "ready")
    shown = _since(again.screen.screen(), "> change it")
    assert shown == live
    again.see("∴ thought, 3 words", "✗ run_command", "more lines (Ctrl-O opens)", "ValueError: no")
    again.see("✓ write_file total.py → +1 -1", "-two", "+2", "Done:", "─", "return 1")
    assert "**" not in "\n".join(shown)
    assert "|---" not in "\n".join(shown)
    assert again.leave() == 0


def _since(rows: list[str], first: str) -> list[str]:
    """What was printed from a line on to the end of the answer."""
    known = [row.rstrip() for row in rows]
    start = known.index(first)
    return known[start : next(n for n in range(start, len(known)) if "return 1" in known[n])]
