"""Asks on record: the first answer counts, and only while the turn waits and its process holds on."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError, InvalidInput, TurnNotRunning
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Ask
from holdfast.sessions.held_lease import HeldLease
from tests.sessions.store_fixtures import user

ASKED = {"kind": "QuestionAsked", "question": "which one? \x00 \ud800", "choices": ("a", "b")}


def every_answer(asks: Sequence[Ask], _: Sequence[Message]) -> list[Message]:
    return [user(str(ask.answer)) for ask in asks if ask.answer]


def asking(db: SessionDB) -> HeldLease:
    """A session whose running turn has asked something."""
    db.create_session("s", source="cli")
    lease = db.hold_session("s", "me")
    assert lease is not None
    db.turns.open("s", user("q"), turn_id="t")
    db.asks.put("a", "t", ASKED, lease=lease)
    return lease


def test_an_ask_is_open_until_it_is_answered_and_the_first_answer_counts(db: SessionDB) -> None:
    lease = asking(db)
    (found,) = db.asks.open("s")
    assert (found.id, found.turn_id, found.event["question"]) == ("a", "t", ASKED["question"])
    assert db.asks.answer("a", "blue", lease_name=lease.name)
    assert not db.asks.answer("a", "red", lease_name=lease.name)
    assert db.asks.open("s") == []
    assert [(ask.state, ask.answer) for ask in db.asks.of_turn("t")] == [("answered", "blue")]
    assert db.asks.close("a") == "blue"


def test_a_closed_ask_takes_no_answer(db: SessionDB) -> None:
    lease = asking(db)
    assert db.asks.close("a") is None
    assert not db.asks.answer("a", "blue", lease_name=lease.name)
    assert db.asks.close("a") is None
    assert db.asks.close("unknown") is None


def test_an_ask_of_another_conversation_is_not_answered(db: SessionDB) -> None:
    asking(db)
    assert not db.asks.answer("a", "blue", lease_name="session:other")


def test_a_process_that_lost_its_lease_leaves_nothing_open(db: SessionDB) -> None:
    lease = asking(db)
    db.let_go_of_session("s", "me")
    assert db.asks.open("s") == []
    assert not db.asks.answer("a", "blue", lease_name=lease.name)
    # Nor is it open for the next holder, whose turn it may become.
    assert db.hold_session("s", "you") is not None
    assert db.asks.open("s") == []


def test_the_end_of_the_turn_ends_its_asks(db: SessionDB) -> None:
    lease = asking(db)
    db.turns.interrupt("t", "enough")
    assert db.asks.open("s") == []
    assert not db.asks.answer("a", "blue", lease_name=lease.name)
    assert db.asks.left_behind() == ["t"]
    assert db.asks.settle("t", every_answer) == []
    assert db.asks.left_behind() == []
    with pytest.raises(TurnNotRunning):
        db.asks.put("b", "t", ASKED, lease=lease)


def test_an_answer_that_was_not_heard_becomes_one_message(db: SessionDB) -> None:
    lease = asking(db)
    assert db.asks.answer("a", "blue", lease_name=lease.name)
    db.turns.interrupt("t", "enough")
    (put,) = db.asks.settle("t", every_answer)
    assert db.asks.settle("t", every_answer) == []
    assert [each.message["content"] for each in db.inbox.waiting("s")] == ["blue"]
    assert put.mode == "queue"


def test_an_answer_that_comes_while_the_asks_are_settled_becomes_a_message_as_well(db: SessionDB) -> None:
    lease = asking(db)
    db.asks.put("b", "t", ASKED, lease=lease)
    assert db.asks.answer("a", "blue", lease_name=lease.name)
    late: list[bool] = []

    def answered_meanwhile(asks: Sequence[Ask], said: Sequence[Message]) -> list[Message]:
        late.append(db.asks.answer("b", "red", lease_name=lease.name))
        return every_answer(asks, said)

    put = db.asks.settle("t", answered_meanwhile)
    assert late == [True, False]
    assert [each.message["content"] for each in put] == ["blue", "red"]
    assert db.inbox.waiting("s") == put
    assert db.asks.of_turn("t") == []


def test_a_completed_turn_has_heard_its_answers(db: SessionDB) -> None:
    lease = asking(db)
    assert db.asks.answer("a", "blue", lease_name=lease.name)
    db.turns.complete("t")
    assert db.asks.settle("t", every_answer) == []
    assert db.asks.of_turn("t") == []


def test_asks_follow_their_turn_into_the_child(db: SessionDB) -> None:
    asking(db)
    db.rotate("s", "child", [user("summary")], carry_from=0)
    assert db.asks.open("s") == []
    assert [ask.id for ask in db.asks.open("child")] == ["a"]


@pytest.mark.parametrize("text", ["\x00", "\ud800"])
def test_an_answer_that_no_store_takes_is_refused_by_name(db: SessionDB, text: str) -> None:
    lease = asking(db)
    with pytest.raises(InvalidInput):
        db.asks.answer("a", text, lease_name=lease.name)
    assert db.asks.open("s")


def test_an_ask_is_put_once(db: SessionDB) -> None:
    lease = asking(db)
    with pytest.raises(HoldfastError):
        db.asks.put("a", "t", ASKED, lease=lease)


def test_of_many_answers_at_once_one_counts_also_against_the_end(db: SessionDB) -> None:
    """Whoever was told that the answer counts finds it heard, or as a message; nobody else does."""
    lease = asking(db)
    told: list[str] = []
    together = threading.Barrier(9)

    def answer(text: str) -> None:
        together.wait(20)
        if db.asks.answer("a", text, lease_name=lease.name):
            told.append(text)

    def end() -> None:
        together.wait(20)
        db.turns.interrupt("t", "enough")
        db.asks.settle("t", every_answer)

    threads: list[Any] = [threading.Thread(target=answer, args=(f"answer {n}",)) for n in range(8)]
    threads.append(threading.Thread(target=end))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert [each.message["content"] for each in db.inbox.waiting("s")] == told
    assert len(told) <= 1
