"""The slash commands of a chat, on a real terminal."""

import re

import pytest

from holdfast import SessionDB
from tests.cli.real_terminal import Home

pytestmark = pytest.mark.slow


def test_slash_commands_work_on_the_conversation(home: Home) -> None:
    home.script(["One.", "Two.", "Again."])
    terminal = home.terminal("chat", rows=50)
    terminal.see("ready")
    terminal.type("first")
    terminal.see("One.", "ready")
    terminal.type("second")
    terminal.see("Two.", "ready")
    terminal.type("/retry")
    terminal.see("Two.", "> second", "Again.", "ready")
    terminal.type("/undo")
    terminal.see("Taken back: second")
    terminal.type("/nonsense")
    terminal.see("there is no command /nonsense")
    terminal.type("/mode steer")
    terminal.see("mode steer: a message sent while a turn runs joins it")
    terminal.type("/sessions")
    terminal.see("> /sessions", "msg first")
    rows = ["".join(row).rstrip() for row in terminal.screen.rows]
    assert rows[rows.index("> /sessions") - 1] == "", (
        "what a command says stands apart from what is typed next"
    )
    terminal.type("/status")
    terminal.see("conversation", "idle", "store:", "workspace:", "approval: ask", "sandbox:")
    terminal.type("/quit")
    assert terminal.end() == 0


def test_conversations_are_left_found_and_gone_back_to(home: Home) -> None:
    home.script(["Of ships.", "Of trains.", "More of ships."])
    with SessionDB(home.database) as db:
        db.create_session("request", source="api")
        db.sessions.append_message("request", {"role": "user", "content": "ships of a client"})
    terminal = home.terminal("chat", columns=160, rows=60)
    terminal.see("ready")
    terminal.type("tell me of ships")
    terminal.see("Of ships.", "ready")
    terminal.type("/new")
    terminal.see("A new conversation.")
    terminal.type("tell me of trains")
    terminal.see("Of trains.", "ready")
    terminal.type("/search ships")
    terminal.see("tell me of ships", "assistant: Of ships.", "you: tell me of ships", "2 found")
    row = next(row for row in terminal.screen.screen() if row.startswith("  1  "))
    assert re.fullmatch(r"  1  \d{4}-\d\d-\d\d \d\d:\d\d  tell me of ships", row.rstrip())
    terminal.type("/resume")
    terminal.see("search >", "tell me of trains", "tell me of ships", "2 conversations fit")
    terminal.key("of ships")
    terminal.see("search > of ships", "tell me of ships", "1 conversation fits")
    terminal.key("\r")
    terminal.see("> /resume", "> tell me of ships", "Of ships.")
    terminal.type("go on")
    terminal.see("More of ships.", "ready")
    target = home.folder / "ships.jsonl"
    terminal.type(f"/export {target}")
    terminal.see("written to")
    terminal.type("/rename All about ships")
    terminal.see("is called 'All about ships'")
    terminal.type(f"/export {home.folder / 'ships.md'}")
    terminal.see("ships.md", "written to")
    terminal.type("/branch")
    terminal.see("This goes on in a copy")
    terminal.type("/resume")
    terminal.see("All about ships (branch)", "3 conversations fit")
    terminal.key("\r")
    terminal.see("in a copy", "> /resume", "> go on", "More of ships.")
    terminal.type("/search trains")
    terminal.see("tell me of trains", "2 found")
    terminal.type("/resume 1")
    terminal.see("> /resume 1", "> tell me of trains", "Of trains.")
    terminal.type("/clear")
    terminal.see("The conversation is ended")
    assert terminal.leave() == 0
    exported = target.read_text(encoding="utf-8")
    assert "More of ships." in exported
    assert "trains" not in exported
    readable = (home.folder / "ships.md").read_text(encoding="utf-8")
    assert readable.startswith("# All about ships\n\n## You, ")
    assert "\n\nMore of ships.\n" in readable


def test_a_number_names_what_the_search_showed_also_where_some_of_it_is_archived(home: Home) -> None:
    home.script([])
    with SessionDB(home.database) as db:
        for name in ("old", "new"):
            db.create_session(name, source="cli")
            db.sessions.append_message(name, {"role": "user", "content": f"the {name} trains"})
        db.conversations.set_archived("new", archived=True)
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("/search trains")
    terminal.see("2 found")
    rows = [row for row in terminal.screen.screen() if re.match(r"  \d  ", row)]
    (number,) = (row.split()[0] for row in rows if "the new trains" in row)
    terminal.type(f"/resume {number}")
    terminal.see(f"> /resume {number}", "> the new trains")
    assert terminal.leave() == 0


def test_a_path_is_a_message_and_no_command(home: Home) -> None:
    home.script(["A file."])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("/etc/hosts is what?")
    terminal.see("A file.", "ready")
    assert terminal.leave() == 0
    assert home.said() == ["/etc/hosts is what?"]


def test_compacting_keeps_the_conversation_going(home: Home) -> None:
    home.script(["One.", "Two.", "A summary.", "Three."])
    terminal = home.terminal("chat", rows=40)
    terminal.see("ready")
    for said, answer in (("first", "One."), ("second", "Two.")):
        terminal.type(said)
        terminal.see(answer, "ready")
    terminal.type("/compact")
    terminal.see("compacted:")
    terminal.type("third")
    terminal.see("> third", "ready")
    assert terminal.leave() == 0
    assert home.said() == ["first", "second", "third"]
