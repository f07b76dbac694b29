"""What a chat platform delivers is stored once, under the account's lease, and says what came of it."""

import pytest

from holdfast.core.errors import InvalidInput, LeaseLost
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from tests.sessions.chat_fixtures import ACCOUNT, chat_message, received_chat
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import hold_lease


def ids(db: SessionDB) -> list[str]:
    return [event.event_id for event in db.chat_events.new(ACCOUNT)]


@pytest.mark.clause("G1")
def test_an_event_that_is_delivered_again_is_stored_once(db: SessionDB) -> None:
    lease = received_chat(db, "1", "2")
    again = [chat_message("2"), chat_message("3"), chat_message("1", chat="c2")]
    assert db.chat_events.receive(ACCOUNT, again, {"": "3", "c2": "1"}, lease=lease) == [1, 2]
    assert ids(db) == ["1", "2", "3", "1"]
    assert db.chat_events.cursors(ACCOUNT) == {"": "3", "c2": "1"}
    assert db.chat_events.cursors("b") == {}


def test_events_of_two_accounts_do_not_meet(db: SessionDB) -> None:
    received_chat(db, "1")
    lease = hold_lease(db, account_lease("b"), "me", ttl_seconds=9)
    assert db.chat_events.receive("b", [chat_message("1")], {}, lease=lease) == [0]
    keys = {event.key for account in (ACCOUNT, "b") for event in db.chat_events.new(account)}
    assert len(keys) == 2


@pytest.mark.clause("G3")
def test_a_process_that_lost_the_account_stores_nothing(database: Database) -> None:
    db = database.open()
    old = received_chat(db, "1")
    database.clock.advance(601)
    hold_lease(db, account_lease(ACCOUNT), "other", ttl_seconds=600)
    with pytest.raises(LeaseLost):
        db.chat_events.receive(ACCOUNT, [chat_message("2")], {"": "2"}, lease=old)
    with pytest.raises(LeaseLost):
        db.chat_events.settle(1, "accepted", lease=old)
    assert ids(db) == ["1"]
    assert db.chat_events.cursors(ACCOUNT) == {"": "1"}


def test_an_event_is_settled_once_with_those_joined_into_it(db: SessionDB) -> None:
    lease = received_chat(db, "1", "2", "3")
    db.chat_events.join([1, 2], lease=lease)
    assert ids(db) == ["2", "3"]
    assert [event.event_id for event in db.chat_events.joined(2)] == ["1"]
    assert db.chat_events.settle(2, "accepted", session_id="s", lease=lease)
    assert not db.chat_events.settle(2, "refused", note="late", lease=lease)
    assert db.chat_events.settle(3, "refused", note="a stranger", lease=lease)
    assert db.chat_events.counts(ACCOUNT) == {"joined": 1, "accepted": 1, "refused": 1}
    assert [(event.event_id, event.note) for event in db.chat_events.refused(ACCOUNT)] == [
        ("3", "a stranger")
    ]


def test_a_room_goes_on_in_the_conversation_that_it_was_given(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.chat_events.receive(ACCOUNT, [chat_message("2", thread="t", title="Cooking")], {}, lease=lease)
    first, second = db.chat_events.rooms(ACCOUNT)
    assert (first.thread, first.session_id, second.thread, second.title) == ("", None, "t", "Cooking")
    db.chat_events.assign(first.id, "s", lease=lease)
    assert [room.id for room in db.chat_events.rooms_of("s")] == [first.id]
    db.chat_events.assign(first.id, None, lease=lease)
    assert db.chat_events.rooms_of("s") == []


def test_what_people_send_may_hold_characters_that_no_store_takes(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    odd = "a\0b\ud83dc"
    db.chat_events.receive(ACCOUNT, [chat_message("2", odd)], {}, lease=lease)
    assert db.chat_events.new(ACCOUNT)[1].body == {"text": odd}
    with pytest.raises(InvalidInput):
        db.chat_events.receive(ACCOUNT, [chat_message("3\0")], {}, lease=lease)


def test_a_deleted_conversation_leaves_no_word_of_its_messages_and_no_way_to_answer_them_again(
    db: SessionDB,
) -> None:
    db.create_session("s", source="chat")
    lease = received_chat(db, "1", "2")
    db.chat_events.join([1, 2], lease=lease)
    db.chat_events.settle(2, "accepted", session_id="s", lease=lease)
    db.chat_events.assign(1, "s", lease=lease)
    db.delete_session("s", force=True)
    assert [db.chat_events.get(each).body for each in (1, 2)] == [{}, {}]  # type: ignore[union-attr]
    assert db.chat_events.receive(ACCOUNT, [chat_message("1"), chat_message("2")], {}, lease=lease) == []
    assert db.chat_events.new(ACCOUNT) == []
    assert db.chat_events.rooms(ACCOUNT)[0].session_id is None


def test_what_a_group_says_among_itself_is_context_for_a_while_and_then_erased(db: SessionDB) -> None:
    lease = received_chat(db, "1", "2", "3", "4", "5")
    one, two, three, four, five = db.chat_events.new(ACCOUNT)
    for event in (one, two):
        db.chat_events.pass_over(event, "idle talk", keep=2, lease=lease)
    db.chat_events.settle(three.id, "accepted", session_id="s", lease=lease)
    db.chat_events.pass_over(four, "idle talk", keep=2, lease=lease)
    assert [each.id for each in db.chat_events.earlier(three, "idle talk", limit=9)] == [one.id, two.id][1:]
    assert [each.id for each in db.chat_events.earlier(five, "idle talk", limit=9)] == [four.id]
    assert db.chat_events.get(one.id).body == {}  # type: ignore[union-attr]
