"""Turns and a process that dies: each step is stored whole or not at all."""

from typing import cast

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import (
    TurnAlreadyRunning,
    TurnNotRunning,
)
from holdfast.sessions import SessionDB
from holdfast.testing import ProcessDied
from holdfast.testing.faults import Moment
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, contents, crashing, user

MOMENTS = pytest.mark.parametrize("moment", ["before", "after"])


def tool_result(content: str) -> Message:
    return {"role": "tool", "content": content, "tool_call_id": "c1"}


def generation(db: SessionDB, session_id: str) -> int:
    session = db.get_session(session_id)
    assert session is not None
    return session.generation


@pytest.mark.clause("D10")
@MOMENTS
def test_a_crash_while_opening_leaves_the_turn_with_its_message_or_neither(
    database: Database, moment: Moment
) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    waiting = db.inbox.put("s", user("question"))
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.turns.open("s", take=waiting.id)
    restarted = database.open()
    opened = restarted.turns.unfinished()
    found = restarted.inbox.get(waiting.id)
    assert found is not None
    if moment == "before":
        assert opened == []
        assert restarted.get_messages("s") == []
        assert found.state == "waiting"
        restarted.turns.open("s", take=waiting.id)
    else:
        assert [turn.session_id for turn in opened] == ["s"]
        assert (found.state, found.turn_id) == ("taken", opened[0].id)
        with pytest.raises(TurnAlreadyRunning):
            restarted.turns.open("s", take=waiting.id)
    assert restarted.get_messages("s") == [user("question")]


@pytest.mark.clause("I1")
@MOMENTS
def test_a_crash_while_joining_leaves_the_message_waiting_or_joined(
    database: Database, moment: Moment
) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("q"))
    steer = db.inbox.put("s", user("steer"), mode="steer")
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.turns.join(turn.id, steer.id)
    restarted = database.open()
    waiting = [each.id for each in restarted.inbox.waiting("s")]
    said = contents(restarted.turns.messages(turn.id))
    assert (waiting, said) == (([steer.id], ["q"]) if moment == "before" else ([], ["q", "steer"]))


@pytest.mark.clause("D10")
def test_each_finished_step_is_on_record_after_a_crash(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("question"))
    call = cast(
        Message,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
        },
    )
    assert db.turns.append(turn.id, [call]) == [1]
    assert db.turns.append(turn.id, [tool_result("found it")]) == [2]
    restarted = database.open()
    [unfinished] = restarted.turns.unfinished()
    assert unfinished == turn
    assert restarted.turns.messages(turn.id) == [user("question"), call, tool_result("found it")]
    assert restarted.turns.running("s") == turn


@pytest.mark.clause("D1")
@MOMENTS
def test_a_crash_while_completing_leaves_all_of_it_or_nothing(database: Database, moment: Moment) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("question"))
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.turns.complete(turn.id, assistant("answer"), providers=["a", "b"])
    restarted = database.open()
    facts = (
        [each.id for each in restarted.turns.unfinished()],
        contents(restarted.get_messages("s")),
        generation(restarted, "s"),
        [each.provider for each in restarted.outbox.list("owed")],
        restarted.sessions.uncommitted(),
    )
    if moment == "before":
        assert facts == ([turn.id], ["question"], 0, [], [])
        restarted.turns.complete(turn.id, assistant("answer"), providers=["a", "b"])
    else:
        assert facts == ([], ["question", "answer"], 1, ["a", "b"], ["s"])
        with pytest.raises(TurnNotRunning):
            restarted.turns.complete(turn.id, assistant("answer"), providers=["a", "b"])
    assert [each.provider for each in restarted.outbox.list("owed")] == ["a", "b"]
    assert contents(restarted.get_messages("s")) == ["question", "answer"]


@MOMENTS
def test_a_crash_while_interrupting_keeps_the_partial_work_with_the_state_or_neither(
    database: Database, moment: Moment
) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("q"))
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.turns.interrupt(turn.id, "stop", [assistant("half")])
    restarted = database.open()
    found = restarted.turns.get(turn.id)
    assert found is not None
    assert (found.state, contents(restarted.get_messages("s"))) == (
        ("running", ["q"]) if moment == "before" else ("interrupted", ["q", "half"])
    )
