"""Conversations as a list, branches that leave them, and the lease under which one is run."""

import sqlite3
from pathlib import Path

import pytest

from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.queries import load_queries
from tests.sessions.databases import Database


def say(db: SessionDB, session: str, *texts: str) -> None:
    for text in texts:
        db.sessions.append_message(session, {"role": "user", "content": text})


def test_the_conversation_last_active_comes_first(db: SessionDB, database: Database) -> None:
    for name in ("old", "new"):
        db.create_session(name, source="cli")
    say(db, "old", "first   words\nof many", "more")
    database.clock.advance(5)
    say(db, "new", "hello")
    database.clock.advance(5)
    listed = db.conversations.list()
    assert [each.session.id for each in listed] == ["new", "old"]
    assert listed[1].opening == "first words of many"
    assert listed[1].messages == 2
    say(db, "old", "again")
    assert [each.session.id for each in db.conversations.list()] == ["old", "new"]


def test_a_conversation_is_listed_once_at_its_live_end_and_subagents_not_at_all(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    say(db, "s", "a", "b")
    db.rotate("s", "child", [{"role": "user", "content": "summary"}], carry_from=2)
    db.create_session("helper", source="delegate", parent="child", relation="delegate")
    assert [each.session.id for each in db.conversations.list()] == ["child"]


def test_the_list_is_filtered_and_paged(db: SessionDB) -> None:
    for number in range(5):
        db.create_session(f"s{number}", source="api" if number % 2 else "cli")
    assert len(db.conversations.list(api=True)) == 2
    assert len(db.conversations.list(api=False)) == 3
    pages = [db.conversations.list(limit=2, offset=offset) for offset in (0, 2, 4)]
    assert sorted(each.session.id for page in pages for each in page) == [f"s{n}" for n in range(5)]
    with pytest.raises(InvalidInput, match="an offset"):
        db.conversations.list(offset=-1)


def test_the_list_is_filtered_by_what_is_pinned_and_archived(db: SessionDB) -> None:
    for name in ("a", "b", "c"):
        db.create_session(name, source="cli")
    db.conversations.set_pinned("a", pinned=True)
    db.conversations.set_archived("b", archived=True)
    names = {
        (pinned, archived): {each.root_id for each in db.conversations.list(pinned=pinned, archived=archived)}
        for pinned in (None, True, False)
        for archived in (None, True, False)
    }
    assert names[None, None] == {"a", "b", "c"}
    assert names[None, False] == {"a", "c"}
    assert names[None, True] == {"b"}
    assert names[True, None] == names[True, False] == {"a"}
    assert names[False, False] == {"c"}
    assert names[True, True] == set()
    db.conversations.set_pinned("a", pinned=False)
    db.conversations.set_archived("b", archived=False)
    assert not any(each.pinned or each.archived for each in db.conversations.list())
    for change in (db.conversations.set_pinned, db.conversations.set_archived):
        with pytest.raises(SessionNotFound):
            change("nowhere", True)


def test_title_pin_and_archive_belong_to_the_conversation_and_stay_through_rotations(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    say(db, "s", "the very first words", "b")
    db.conversations.set_pinned("s", pinned=True)
    db.rotate("s", "child", [{"role": "user", "content": "summary"}], carry_from=2)
    db.conversations.set_title("s", "renamed")
    db.conversations.set_archived("child", archived=True)
    db.rotate("child", "grandchild", [{"role": "user", "content": "summary"}], carry_from=1)
    [listed] = db.conversations.list()
    assert listed == db.conversations.find("s") == db.conversations.find("child")
    assert (listed.session.id, listed.root_id, listed.session.title) == ("grandchild", "s", "renamed")
    assert (listed.pinned, listed.archived, listed.opening) == (True, True, "the very first words")
    assert [each.title for each in db.sessions.conversation("child")] == ["renamed"] * 3
    branch = db.conversations.branch("grandchild", "b")
    assert not db.conversations.find(branch.id).pinned
    assert not db.conversations.find(branch.id).archived


def test_a_subagent_that_was_compacted_is_not_listed_either(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.create_session("helper", source="delegate", parent="s", relation="delegate")
    db.rotate("helper", "helper2", [{"role": "user", "content": "so far"}], carry_from=0)
    assert [each.session.id for each in db.conversations.list()] == ["s"]


def test_a_turn_brings_its_conversation_to_the_front_and_so_does_an_import(
    db: SessionDB, database: Database
) -> None:
    for name in ("one", "two", "three"):
        db.create_session(name, source="cli")
        database.clock.advance(1)
    turn = db.turns.open("one", {"role": "user", "content": "hm"})
    assert db.conversations.list()[0].root_id == "one"
    database.clock.advance(1)
    say(db, "two", "hello")
    assert db.conversations.list()[0].root_id == "two"
    database.clock.advance(1)
    db.turns.interrupt(turn.id, "no more", [{"role": "assistant", "content": "I was"}])
    spoken = db.conversations.find("one").last_active
    assert db.conversations.list()[0].root_id == "one"
    database.clock.advance(1)
    lines = db.export_session("one")
    db.delete_session("one")
    say(db, "two", "later")
    db.import_session(lines)
    assert [each.root_id for each in db.conversations.list()] == ["two", "one", "three"]
    assert db.conversations.find("one").last_active == spoken, (
        "an import says when it was active, not when it came"
    )


def test_when_a_conversation_was_last_active_is_kept_to_the_second_and_exactly_for_turns(
    db: SessionDB, database: Database
) -> None:
    db.create_session("s", source="cli")
    begun = db.conversations.find("s").last_active
    database.clock.advance(0.5)
    say(db, "s", "a", "b")
    assert db.conversations.find("s").last_active == begun, (
        "nothing is written for a message that follows at once"
    )
    database.clock.advance(0.5)
    say(db, "s", "c")
    assert db.conversations.find("s").last_active == begun + SECOND
    database.clock.advance(0.25)
    turn = db.turns.open("s", {"role": "user", "content": "d"})
    assert db.conversations.find("s").last_active == begun + 1.25 * SECOND
    database.clock.advance(5)
    db.turns.append(turn.id, [{"role": "assistant", "content": "e"}])
    assert db.conversations.find("s").last_active == begun + 6.25 * SECOND, "a step of a turn is spoken too"
    database.clock.advance(0.25)
    db.turns.complete(turn.id, {"role": "assistant", "content": "f"})
    assert db.conversations.find("s").last_active == begun + 6.5 * SECOND


def test_a_clock_that_was_set_back_does_not_keep_a_conversation_in_the_future(
    db: SessionDB, database: Database
) -> None:
    db.create_session("s", source="cli")
    database.clock.advance(1)
    say(db, "s", "a")
    now = db.conversations.find("s").last_active
    ahead = "update sessions set last_active = last_active + 3600000000"
    db._engine.write(lambda tx: tx.connection.execute(ahead).rowcount)  # noqa: SLF001 - what a clock can do
    say(db, "s", "b")
    assert db.conversations.find("s").last_active == now


def test_messages_are_read_from_either_end_of_a_page(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    say(db, "s", *(str(number) for number in range(10)))

    def seqs(before: int | None, limit: int | None = None) -> list[int]:
        return [each.seq for each in db.sessions.read_before("s", before, limit=limit)]

    assert seqs(None, 3) == [7, 8, 9]
    assert seqs(7, 3) == [4, 5, 6]
    assert seqs(2, 3) == [0, 1]
    assert seqs(0) == []
    assert seqs(None) == list(range(10))
    assert db.sessions.read_before("s", 5, limit=1) == db.sessions.read("s", start=4, limit=1)


def test_a_branch_begins_with_what_was_said_before_it_left(db: SessionDB) -> None:
    db.create_session("s", source="cli", title="trip")
    say(db, "s", "a", "b", "c")
    branch = db.conversations.branch("s", "b1", before=2)
    assert (branch.parent, branch.relation, branch.title) == ("s", "branch", "trip")
    assert [m["content"] for m in db.get_messages("b1")] == ["a", "b"]
    say(db, "b1", "other")
    assert [m["content"] for m in db.get_messages("s")] == ["a", "b", "c"]
    assert db.sessions.live_end("s") == "s"
    assert len(db.search("a")) == 1, "a copy is not found twice"
    assert len(db.get_messages(db.conversations.branch("s", "b2").id)) == 3


@pytest.mark.parametrize("before", [-1, 4])
def test_a_branch_can_not_leave_where_nothing_is(db: SessionDB, before: int) -> None:
    db.create_session("s", source="cli")
    say(db, "s", "a", "b", "c")
    with pytest.raises(InvalidInput, match="between 0 and 3"):
        db.conversations.branch("s", "b1", before=before)
    assert db.get_session("b1") is None
    with pytest.raises(SessionNotFound):
        db.conversations.branch("nowhere", "b1")


def test_a_conversation_is_run_by_one_holder_across_its_rotations(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    lease = db.hold_session("s", "one")
    assert lease is not None
    assert db.hold_session("s", "two") is None
    db.rotate("s", "child", [{"role": "user", "content": "x"}], carry_from=0)
    assert db.hold_session("child", "two") is None
    assert db.session_holder("child") == "one"
    turn = db.turns.under(lease).open("child", {"role": "user", "content": "go on"})
    db.turns.under(lease).complete(turn.id, {"role": "assistant", "content": "ok"})
    db.let_go_of_session("child", "one")
    assert db.hold_session("s", "two") is not None


@pytest.mark.parametrize("scope", [None, "matrix/room"])
def test_a_page_of_the_list_is_read_off_one_index(tmp_path: Path, scope: str | None) -> None:
    """However many conversations there are: no scan of them, and no sorting of more than the page."""
    path = tmp_path / "holdfast.db"
    SessionDB(path).close()
    reader = sqlite3.connect(path)
    bound = {"source": None, "not_source": "api", "scope": scope, "archived": 0}
    bound |= {"pinned": None, "folder": None, "limit": 50, "offset": 0}
    query = load_queries("sqlite", "sqlite3").list_sessions.sql
    plan = [row[3] for row in reader.execute(f"explain query plan {query}", bound)]
    reader.close()
    scans = [step for step in plan if step.startswith("SCAN")]
    assert scans == ["SCAN l USING INDEX sessions_by_last_active", "SCAN page"]
