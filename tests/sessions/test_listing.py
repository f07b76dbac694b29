"""Conversations as a list, branches that leave them, and the lease under which one is run."""

import pytest

from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.sessions import SessionDB
from tests.sessions.stores import Database


def say(db: SessionDB, session: str, *texts: str) -> None:
    for text in texts:
        db.append_message(session, {"role": "user", "content": text})


def test_the_conversation_last_spoken_in_comes_first(db: SessionDB, database: Database) -> None:
    for name in ("old", "new"):
        db.create_session(name, source="cli")
    say(db, "old", "first   words\nof many", "more")
    database.clock.advance(5)
    say(db, "new", "hello")
    database.clock.advance(5)
    listed = db.list_sessions()
    assert [each.session.id for each in listed] == ["new", "old"]
    assert listed[1].opening == "first words of many"
    assert listed[1].messages == 2
    say(db, "old", "again")
    assert [each.session.id for each in db.list_sessions()] == ["old", "new"]


def test_a_conversation_is_listed_once_at_its_live_end_and_subagents_not_at_all(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    say(db, "s", "a", "b")
    db.rotate("s", "child", [{"role": "user", "content": "summary"}], carry_from=2)
    db.create_session("helper", source="delegate", parent="child", relation="delegate")
    assert [each.session.id for each in db.list_sessions()] == ["child"]


def test_the_list_is_filtered_and_paged(db: SessionDB) -> None:
    for number in range(5):
        db.create_session(f"s{number}", source="web" if number % 2 else "cli")
    assert len(db.list_sessions(source="web")) == 2
    pages = [db.list_sessions(limit=2, offset=offset) for offset in (0, 2, 4)]
    assert sorted(each.session.id for page in pages for each in page) == [f"s{n}" for n in range(5)]
    with pytest.raises(InvalidInput, match="an offset"):
        db.list_sessions(offset=-1)


def test_a_branch_begins_with_what_was_said_before_it_left(db: SessionDB) -> None:
    db.create_session("s", source="cli", title="trip")
    say(db, "s", "a", "b", "c")
    branch = db.branch("s", "b1", before=2)
    assert (branch.parent, branch.relation, branch.title) == ("s", "branch", "trip")
    assert [m["content"] for m in db.get_messages("b1")] == ["a", "b"]
    say(db, "b1", "other")
    assert [m["content"] for m in db.get_messages("s")] == ["a", "b", "c"]
    assert db.live_end("s") == "s"
    assert len(db.search("a")) == 1, "a copy is not found twice"
    assert len(db.get_messages(db.branch("s", "b2").id)) == 3


@pytest.mark.parametrize("before", [-1, 4])
def test_a_branch_can_not_leave_where_nothing_is(db: SessionDB, before: int) -> None:
    db.create_session("s", source="cli")
    say(db, "s", "a", "b", "c")
    with pytest.raises(InvalidInput, match="between 0 and 3"):
        db.branch("s", "b1", before=before)
    assert db.get_session("b1") is None
    with pytest.raises(SessionNotFound):
        db.branch("nowhere", "b1")


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
