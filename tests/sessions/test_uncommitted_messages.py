"""The uncommitted stretch of a session: what a boundary commit hands to memory."""

import pytest

from holdfast.sessions import SessionDB
from tests.sessions.store_fixtures import assistant, completed_turn, contents, user

pytestmark = pytest.mark.clause("L2", "L13")


def test_it_is_what_was_said_in_the_completed_turns_that_no_commit_has_covered(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.create_session("other", source="cli")
    db.sessions.append_message("s", user("outside any turn"))
    for question in ("one", "two", "three"):
        completed_turn(db, "s", question)
        completed_turn(db, "other", f"other {question}")
    failed = db.turns.open("s", user("failed"))
    db.turns.fail(failed.id, "model error")
    db.turns.open("s", user("still running"))
    assert db.sessions.mark_committed("s", 1)
    said = ["two", "because of two", "three", "because of three"]
    assert contents(db.sessions.uncommitted_messages("s")) == said
    assert contents(db.sessions.uncommitted_messages("s", through=2)) == said[:2]
    assert db.sessions.uncommitted_messages("s", through=1) == []
    assert db.sessions.mark_committed("s", 3)
    assert db.sessions.uncommitted_messages("s") == []
    assert len(db.sessions.uncommitted_messages("other")) == 6


def test_every_step_of_a_turn_is_in_it_as_it_was_stored(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("weather?"))
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
        {"role": "tool", "content": "rain", "tool_call_id": "c1"},
    ]
    db.turns.append(turn.id, steps)  # type: ignore[arg-type]
    db.turns.complete(turn.id, assistant("It rains."))
    assert db.sessions.uncommitted_messages("s") == [user("weather?"), *steps, assistant("It rains.")]


def test_a_turn_that_a_rotation_moved_is_in_the_child_whole_and_once(db: SessionDB) -> None:
    db.create_session("a", source="cli")
    completed_turn(db, "a", "old")
    turn = db.turns.open("a", user("moved"))
    db.turns.append(turn.id, [assistant("working")])
    db.rotate("a", "b", [user("summary")], carry_from=2)
    db.turns.complete(turn.id, assistant("done"))
    assert contents(db.sessions.uncommitted_messages("a")) == ["old", "because of old"]
    assert contents(db.sessions.uncommitted_messages("b")) == ["moved", "working", "done"]
