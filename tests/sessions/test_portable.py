"""Export and import: the same bytes after a round trip, on one engine and across both."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.ids import new_id
from holdfast.sessions import SessionDB
from tests.fast_run import examples
from tests.sessions.databases import Database, sqlite_database
from tests.sessions.exported_lines import conversation
from tests.sessions.store_fixtures import assistant, contents, messages, sendable_messages, user


@pytest.mark.clause("C8")
def test_an_export_names_its_format_and_holds_the_whole_lineage(db: SessionDB) -> None:
    lines = conversation(db)
    assert lines == db.export_session("a") == db.export_session("c")
    first, *rest = (json.loads(line) for line in lines)
    assert first == {"holdfast": "conversation", "version": 1}
    assert [each["session"]["id"] for each in rest if "session" in each] == ["a", "b", "c"]
    kinds = [next(iter(each)) for each in rest]
    assert kinds == sorted(kinds, key=["session", "turn", "message", "waiting"].index)
    assert all("\n" not in line and "\x00" not in line for line in lines)


def test_a_conversation_comes_back_byte_for_byte(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    assert empty.import_session(lines) == ["a", "b", "c"]
    assert empty.export_session("c") == lines
    assert empty.check() == []
    for session_id in ("a", "b", "c"):
        assert empty.get_messages(session_id) == db.get_messages(session_id)
        assert empty.sessions.read(session_id) == db.sessions.read(session_id)
    [running] = db.turns.unfinished()
    assert empty.turns.unfinished() == [running]
    assert empty.turns.messages(running.id) == db.turns.messages(running.id)
    assert [each.message for each in empty.inbox.waiting("c")] == [
        each.message for each in db.inbox.waiting("c")
    ]
    assert empty.outbox.list("owed") == [], "what is owed stays with the store that owes it"
    assert [hit.session_id for hit in empty.search("question")] == ["a", "a"]


def test_a_conversation_goes_round_both_engines_byte_for_byte(database: Database, empty: SessionDB) -> None:
    lines = conversation(empty)
    there = database.open()
    there.import_session(lines)
    assert there.export_session("a") == lines
    assert there.check() == []
    again = Path(empty.location).parent / "again"
    again.mkdir()
    back = sqlite_database(again)
    back.open().import_session(there.export_session("a"))
    assert back.open().export_session("c") == lines
    back.close()


def test_an_imported_conversation_goes_on(db: SessionDB, empty: SessionDB) -> None:
    empty.import_session(conversation(db))
    assert empty.sessions.live_end("a") == "c"
    [running] = empty.turns.unfinished()
    waiting = empty.inbox.waiting("a") or empty.inbox.waiting("c")
    empty.turns.join(running.id, waiting[0].id)
    finished = empty.turns.complete(running.id, assistant("done"), providers=["p"])
    assert finished.generation == 1
    assert contents(empty.get_messages("c"))[-2:] == ["waits", "done"]
    assert empty.rotate("c", "d", [], carry_from=0).child_id == "d"


@given(
    st.lists(st.lists(messages, max_size=4), min_size=1, max_size=3),
    st.lists(sendable_messages, max_size=2),
)
@settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_conversation_comes_back_byte_for_byte(
    db: SessionDB, empty: SessionDB, stretches: list[list[Any]], waiting: list[Any]
) -> None:
    first = current = new_id()
    db.create_session(current, source="cli")
    for number, said in enumerate(stretches):
        if number:
            child = new_id()
            db.rotate(current, child, said[:1], carry_from=len(db.get_messages(current)) // 2)
            current = child
        db.sessions.append_messages(current, said)
        if said:
            turn = db.turns.open(current, said[0])
            db.turns.complete(turn.id, said[-1])
    for message in waiting:
        db.inbox.put(current, message)
    lines = db.export_session(first)
    empty.import_session(lines)
    assert empty.export_session(current) == lines
    # Lines survive a file, whatever characters they hold.
    text = "\n".join(lines).encode().decode()
    assert text.split("\n") == lines


def test_a_pinned_and_archived_conversation_comes_back_so(db: SessionDB, empty: SessionDB) -> None:
    conversation(db)
    db.conversations.set_pinned("c", pinned=True)
    pinned = db.export_session("c")
    db.conversations.set_archived("c", archived=True)
    both = db.export_session("c")
    marks = [
        {name: value for name, value in json.loads(line)["session"].items() if name in ("pinned", "archived")}
        for line in both[1:4]
    ]
    assert marks == [{"pinned": True, "archived": True}, {}, {}]
    empty.import_session(both)
    assert empty.export_session("b") == both
    assert (empty.conversations.find("a").pinned, empty.conversations.find("a").archived) == (True, True)
    assert empty.conversations.list(archived=False) == []
    empty.conversations.set_archived("a", archived=False)
    assert empty.export_session("a") == pinned


def test_lines_may_carry_their_line_ends(db: SessionDB, empty: SessionDB, tmp_path: Path) -> None:
    lines = conversation(db)
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with file.open(encoding="utf-8", newline="\n") as opened:
        empty.import_session(opened)
    assert empty.export_session("a") == lines


@pytest.mark.slow
def test_ten_thousand_messages_travel(db: SessionDB, empty: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user(f"message {number} 🎉") for number in range(10_000)])
    lines = db.export_session("s")
    empty.import_session(lines)
    assert empty.export_session("s") == lines
    assert [hit.seq for hit in empty.search('"message 9999"')] == [9_999]
