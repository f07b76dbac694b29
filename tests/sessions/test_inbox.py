"""The inbox: a user's word is stored at once and waits, in order, until a turn takes it."""

from functools import partial
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import (
    HoldfastError,
    InvalidInput,
    NotWaiting,
    SessionBusy,
    SessionEnded,
    TurnNotFound,
    TurnNotRunning,
)
from holdfast.core.ids import new_id
from holdfast.sessions import InboxMessage, SessionDB
from holdfast.sessions.contract import MODES, Mode
from holdfast.testing import ProcessDied
from holdfast.testing.faults import Moment
from tests.fast_run import examples
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import contents, crashing, sendable_messages, together, user

pytestmark = pytest.mark.clause("I1")


@pytest.fixture
def session(db: SessionDB) -> str:
    return db.create_session("s", source="cli").id


def waiting_texts(db: SessionDB, session_id: str) -> list[Any]:
    return contents([each.message for each in db.inbox.waiting(session_id)])


def test_messages_wait_in_the_order_they_came(db: SessionDB, session: str) -> None:
    put = [db.inbox.put(session, user(str(n)), mode=MODES[n % 3]) for n in range(9)]
    waiting = db.inbox.waiting(session)
    assert waiting == put
    assert [each.mode for each in waiting] == list(MODES) * 3
    assert [each.id for each in waiting] == sorted(each.id for each in waiting)
    assert db.inbox.waiting(session, limit=2) == put[:2]
    assert db.inbox.waiting(session, limit=0) == []
    assert all(db.inbox.get(each.id) == each for each in put)


def test_looking_takes_nothing_and_sessions_do_not_mix(db: SessionDB, session: str) -> None:
    db.create_session("other", source="cli")
    db.create_session("empty", source="cli")
    db.inbox.put(session, user("mine"))
    db.inbox.put("other", user("theirs"))
    assert waiting_texts(db, session) == waiting_texts(db, session) == ["mine"]
    assert waiting_texts(db, "other") == ["theirs"]
    assert db.inbox.sessions() == ["other", session]
    assert db.inbox.waiting("nobody") == []
    assert db.inbox.get(424242) is None


def test_a_stored_message_is_there_for_every_process_and_after_a_restart(
    database: Database,
) -> None:
    database.open().create_session("s", source="cli")
    put = database.open().inbox.put("s", user("hello"), mode="interrupt")
    assert database.open().inbox.waiting("s") == [put]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_putting_stores_the_message_once_or_not_at_all(
    database: Database, moment: Moment
) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.inbox.put("s", user("hello"), key="k")
    restarted = database.open()
    assert waiting_texts(restarted, "s") == ([] if moment == "before" else ["hello"])
    restarted.inbox.put("s", user("hello"), key="k")
    assert waiting_texts(restarted, "s") == ["hello"]


@pytest.mark.parametrize("mode", ["", "QUEUE", "now", None, 5])
def test_an_unknown_mode_is_invalid(db: SessionDB, session: str, mode: Mode) -> None:
    with pytest.raises(InvalidInput, match="mode"):
        db.inbox.put(session, user("x"), mode=mode)
    assert db.inbox.waiting(session) == []


def test_a_second_put_with_the_same_key_is_the_first(db: SessionDB, session: str) -> None:
    first = db.inbox.put(session, user("hello"), key="k")
    assert db.inbox.put(session, user("hello"), key="k") == first
    other = db.inbox.put(session, user("hello"), key="k2")
    unkeyed = [db.inbox.put(session, user("hello")) for _ in range(2)]
    assert len({first.id, other.id, *(each.id for each in unkeyed)}) == 4
    assert len(db.inbox.waiting(session)) == 4


def test_a_key_still_counts_after_the_message_was_taken_or_withdrawn(db: SessionDB, session: str) -> None:
    taken = db.inbox.put(session, user("one"), key="taken")
    turn = db.turns.open(session, take=taken.id)
    again = db.inbox.put(session, user("one"), key="taken")
    assert (again.id, again.state, again.turn_id) == (taken.id, "taken", turn.id)
    gone = db.inbox.put(session, user("two"), key="gone")
    db.inbox.withdraw(gone.id)
    assert db.inbox.put(session, user("two"), key="gone").state == "withdrawn"
    assert db.inbox.waiting(session) == []


def test_a_key_still_counts_after_a_rotation_from_any_ancestor(db: SessionDB, session: str) -> None:
    first = db.inbox.put(session, user("hello"), key="k")
    db.rotate(session, "b", [], carry_from=0)
    for target in (session, "b"):
        again = db.inbox.put(target, user("hello"), key="k")
        assert (again.id, again.session_id) == (first.id, "b")
    assert len(db.inbox.waiting("b")) == 1


def test_a_key_of_one_conversation_does_not_swallow_a_message_to_another(db: SessionDB, session: str) -> None:
    db.create_session("other", source="cli")
    db.inbox.put(session, user("mine"), key="17")
    try:
        put = db.inbox.put("other", user("theirs"), key="17")
    except HoldfastError:
        assert waiting_texts(db, "other") == []
    else:
        assert put.session_id == "other"
        assert waiting_texts(db, "other") == ["theirs"]
    assert waiting_texts(db, session) == ["mine"]


def test_concurrent_puts_with_one_key_store_one_message(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    stores[0].create_session("s", source="cli")
    for number in range(5):
        key = f"k{number}"
        outcomes = together(
            *(lambda n=n, key=key: stores[n % 4].inbox.put("s", user("x"), key=key) for n in range(8))
        )
        ids = {cast(InboxMessage, outcome).id for outcome in outcomes}
        assert len(ids) == 1
    assert len(stores[0].inbox.waiting("s")) == 5


def test_concurrent_puts_lose_nothing_and_keep_each_senders_order(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    stores[0].create_session("s", source="cli")

    def send(number: int) -> None:
        for step in range(10):
            stores[number].inbox.put("s", user(f"{number}.{step}"))

    assert together(*(lambda n=n: send(n) for n in range(4))) == [None] * 4
    texts = waiting_texts(stores[0], "s")
    assert len(texts) == 40
    for number in range(4):
        own = [text for text in texts if text.startswith(f"{number}.")]
        assert own == [f"{number}.{step}" for step in range(10)]


def test_a_waiting_message_can_be_edited_and_withdrawn(db: SessionDB, session: str) -> None:
    first, second = (db.inbox.put(session, user(text)) for text in ("one", "two"))
    db.inbox.edit(first.id, user("one, better"))
    assert waiting_texts(db, session) == ["one, better", "two"]
    db.inbox.withdraw(first.id)
    assert [each.id for each in db.inbox.waiting(session)] == [second.id]
    withdrawn = db.inbox.get(first.id)
    assert withdrawn is not None
    assert (withdrawn.state, withdrawn.message) == ("withdrawn", user("one, better"))


def test_a_message_that_no_longer_waits_can_not_be_edited_or_withdrawn(db: SessionDB, session: str) -> None:
    taken = db.inbox.put(session, user("taken"))
    turn = db.turns.open(session, take=taken.id)
    gone = db.inbox.put(session, user("gone"))
    db.inbox.withdraw(gone.id)
    for inbox_id, state in ((taken.id, "taken"), (gone.id, "withdrawn"), (5555, "unknown")):
        for call in (
            partial(db.inbox.edit, inbox_id, user("changed")),
            partial(db.inbox.withdraw, inbox_id),
            partial(db.turns.join, turn.id, inbox_id),
        ):
            with pytest.raises(NotWaiting) as refused:
                call()
            assert (refused.value.inbox_id, refused.value.state) == (inbox_id, state)
    assert db.turns.messages(turn.id) == [user("taken")]


def test_a_turn_that_ended_or_never_was_can_not_swallow_a_message(db: SessionDB, session: str) -> None:
    turn = db.turns.open(session, user("q"))
    db.turns.complete(turn.id)
    put = db.inbox.put(session, user("too late for that turn"), mode="steer")
    with pytest.raises(TurnNotRunning):
        db.turns.join(turn.id, put.id)
    with pytest.raises(TurnNotFound):
        db.turns.join("nobody", put.id)
    assert [each.id for each in db.inbox.waiting(session)] == [put.id]


def test_a_message_addressed_to_an_unknown_turn_is_refused_by_name(db: SessionDB, session: str) -> None:
    with pytest.raises(TurnNotFound, match="nobody"):
        db.inbox.put(session, user("stop"), mode="interrupt", addressed_to="nobody")
    assert db.inbox.waiting(session) == []


def test_a_message_to_an_ancestor_lands_in_the_live_end(db: SessionDB, session: str) -> None:
    db.rotate(session, "b", [], carry_from=0)
    db.rotate("b", "c", [], carry_from=0)
    for target in (session, "b", "c"):
        assert db.inbox.put(target, user(target)).session_id == "c"
    assert waiting_texts(db, "c") == [session, "b", "c"]
    assert db.inbox.sessions() == ["c"]


def test_a_message_to_a_conversation_that_ended_is_refused_by_name(db: SessionDB, session: str) -> None:
    db.rotate(session, "b", [], carry_from=0)
    db.sessions.end("b", "user left")
    for target in (session, "b"):
        with pytest.raises(SessionEnded) as refused:
            db.inbox.put(target, user("hello?"))
        assert refused.value.end_reason == "user left"
    assert db.inbox.waiting("b") == []


@pytest.mark.clause("I1")
def test_a_session_in_which_messages_wait_does_not_end(db: SessionDB, session: str) -> None:
    put = db.inbox.put(session, user("waits"))
    with pytest.raises(SessionBusy, match="1 messages wait"):
        db.sessions.end(session, "user left")
    assert db.inbox.waiting(session) == [put]
    db.inbox.withdraw(put.id)
    db.sessions.end(session, "user left")


def test_puts_race_with_rotations_and_nothing_is_left_behind(database: Database) -> None:
    sender, rotator = database.open(), database.open()
    sender.create_session("0", source="cli")

    def send() -> None:
        for number in range(60):
            sender.inbox.put("0", user(str(number)))

    def rotate() -> None:
        for number in range(12):
            rotator.rotate(str(number), str(number + 1), [], carry_from=0)

    assert together(send, rotate) == [None, None]
    assert waiting_texts(sender, "12") == [str(number) for number in range(60)]
    assert sender.inbox.sessions() == ["12"]


@given(st.lists(sendable_messages, min_size=1, max_size=5))
@settings(
    max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_messages_are_taken_in_order_word_for_word(db: SessionDB, said: list[Any]) -> None:
    session_id = new_id()
    db.create_session(session_id, source="cli")
    for message in said:
        db.inbox.put(session_id, message)
    for _ in said:
        turn = db.turns.open(session_id, take=db.inbox.waiting(session_id, limit=1)[0].id)
        db.turns.complete(turn.id)
    assert db.get_messages(session_id) == said


def test_a_waiting_message_changes_with_how_it_waits_and_only_while_it_does(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("first"))
    waiting = db.inbox.put("s", user("later"))
    changed = db.inbox.edit(waiting.id, user("now"), mode="interrupt")
    assert (changed.mode, changed.message, changed.addressed_to) == ("interrupt", user("now"), turn.id)
    assert db.inbox.edit(waiting.id, user("now!")).addressed_to == turn.id
    changed = db.inbox.edit(waiting.id, user("no hurry"), mode="queue")
    assert (changed.mode, changed.addressed_to) == ("queue", None)
    assert db.inbox.waiting("s") == [changed]
    db.turns.join(turn.id, waiting.id)
    with pytest.raises(NotWaiting, match="taken"):
        db.inbox.edit(waiting.id, user("too late"), mode="steer")
    with pytest.raises(InvalidInput, match="mode"):
        db.inbox.edit(waiting.id, user("x"), mode="shout")  # type: ignore[arg-type]
