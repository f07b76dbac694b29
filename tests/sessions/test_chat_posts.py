"""The ledger of what chats are shown: an answer is posted by the transaction that ends its turn."""

import pytest

from holdfast.core.errors import ChatPostNotFound, ChatPostSettled, LeaseLost, NotWaiting
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.held_lease import HeldLease
from tests.sessions.chat_fixtures import ACCOUNT, chat_message, received_chat, turn_of_chat
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, completed_turn, hold_lease, user


@pytest.fixture
def lease(db: SessionDB) -> HeldLease:
    """The account's lease in a store with the session "s", in which a chat's message opened the turn "t"."""
    db.create_session("s", source="chat")
    lease = received_chat(db, "1")
    turn_of_chat(db, lease)
    return lease


def send_all(db: SessionDB, post_id: int, lease: HeldLease, *texts: str) -> None:
    for part in db.chat_posts.plan(post_id, [{"text": text} for text in texts], lease=lease):
        db.chat_posts.move_part(post_id, part.number, ("new", "sending"), lease=lease)
        db.chat_posts.move_part(post_id, part.number, ("sending", "sent"), f"m{part.number}", lease=lease)
    db.chat_posts.settle(post_id, "sent", lease=lease)


@pytest.mark.clause("G2")
def test_an_answer_goes_where_its_message_came_from(db: SessionDB, lease: HeldLease) -> None:
    assert db.chat_posts.due(ACCOUNT) == []
    db.turns.complete("t", assistant("hi there"))
    (post,) = db.chat_posts.due(ACCOUNT)
    assert (post.kind, post.room_id, post.reply_to, post.turn_id) == ("answer", 1, "m1", "t")
    assert post.body == {"outcome": "completed", "text": "hi there"}
    send_all(db, post.id, lease, "hi there")
    assert db.chat_posts.due(ACCOUNT) == []
    assert db.chat_posts.counts(ACCOUNT) == {"sent": 1}


@pytest.mark.parametrize("end", ["interrupt", "fail"])
def test_a_turn_that_was_cut_short_is_said_too(db: SessionDB, lease: HeldLease, end: str) -> None:
    getattr(db.turns, end)("t", "no more", [assistant("half")])
    (post,) = db.chat_posts.due(ACCOUNT)
    assert (post.body["text"], post.body["reason"]) == ("half", "no more")


def test_a_turn_that_no_chat_began_posts_nothing(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    received_chat(db, "1")
    completed_turn(db, "s", providers=["p"])
    assert db.chat_posts.counts(ACCOUNT) == {}


def test_a_turn_that_more_messages_joined_answers_the_first_once(db: SessionDB, lease: HeldLease) -> None:
    db.chat_events.receive(ACCOUNT, [chat_message("2")], {}, lease=lease)
    steer = db.inbox.put("s", user("and this"), mode="steer", key=db.chat_events.new(ACCOUNT)[0].key)
    db.turns.join("t", steer.id)
    db.turns.complete("t", assistant("both"))
    assert [post.reply_to for post in db.chat_posts.due(ACCOUNT)] == ["m1"]


@pytest.mark.clause("G2")
def test_a_preview_becomes_the_answer(db: SessionDB, lease: HeldLease) -> None:
    preview = db.chat_posts.open("t", "s")
    assert preview is not None
    assert db.chat_posts.open("t", "s") is None
    assert db.chat_posts.due(ACCOUNT) == []
    assert preview.state == "open"
    db.chat_posts.plan(preview.id, [{"text": "…"}], lease=lease)
    db.chat_posts.move_part(preview.id, 0, ("new", "sending"), lease=lease)
    db.chat_posts.move_part(preview.id, 0, ("sending", "standing"), "m9", lease=lease)
    db.turns.complete("t", assistant("done"))
    (post,) = db.chat_posts.due(ACCOUNT)
    assert post.id == preview.id
    (part, rest) = db.chat_posts.plan(post.id, [{"text": "do"}, {"text": "ne"}], lease=lease)
    assert (part.message_id, part.state, part.body["text"], rest.state) == ("m9", "standing", "do", "new")
    assert db.chat_posts.open("t", "s") is None


def test_a_preview_that_comes_after_the_answer_is_none(db: SessionDB, lease: HeldLease) -> None:
    db.turns.complete("t", assistant("done"))
    assert db.chat_posts.open("t", "s") is None
    assert db.chat_posts.open("unknown", "s") is None


@pytest.mark.clause("G4")
def test_a_question_that_is_asked_again_keeps_its_message(db: SessionDB, lease: HeldLease) -> None:
    held = hold_lease(db, "session:s", "me", ttl_seconds=60)
    db.asks.put("ask1", "t", {"ask_id": "ask1", "call_id": "c"}, lease=held)
    (post,) = db.chat_posts.due(ACCOUNT)
    assert post.kind == "ask"
    send_all(db, post.id, lease, "may I?")
    db.asks.put("ask2", "t", {"ask_id": "ask2", "call_id": "c"}, lease=held)
    assert db.chat_posts.due(ACCOUNT) == []
    found = db.chat_posts.by_key("ask:t:c")
    assert found is not None
    assert found.body["ask_id"] == "ask2"


@pytest.mark.clause("G5")
def test_posts_of_a_room_are_sent_in_order_and_rooms_do_not_wait_for_each_other(
    database: Database,
) -> None:
    db = database.open()
    lease = received_chat(db, "1")
    db.chat_events.receive(ACCOUNT, [chat_message("1", chat="c2")], {}, lease=lease)
    for number, room in enumerate((1, 1, 2)):
        db.chat_posts.put(NewPost(f"n{number}", room, {"text": str(number)}))
    db.chat_posts.put(NewPost("n0", 2, {"text": "the same key again"}))
    assert [post.body["text"] for post in db.chat_posts.due(ACCOUNT)] == ["0", "2"]
    db.chat_posts.defer(1, 5, "slow down", counted=True, lease=lease)
    assert [post.body["text"] for post in db.chat_posts.due(ACCOUNT)] == ["2"]
    database.clock.advance(6)
    (first, _) = db.chat_posts.due(ACCOUNT)
    assert (first.attempts, first.error) == (1, "slow down")
    db.chat_posts.settle(1, "failed", "the chat is gone", lease=lease)
    assert [post.body["text"] for post in db.chat_posts.due(ACCOUNT)] == ["1", "2"]


def test_what_failed_waits_for_a_person(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.chat_posts.put(NewPost("n", 1, {"text": "hello"}))
    with pytest.raises(ChatPostSettled):
        db.chat_posts.retry(1)
    with pytest.raises(ChatPostNotFound):
        db.chat_posts.retry(2)
    db.chat_posts.settle(1, "failed", "the chat is gone", lease=lease)
    assert [post.error for post in db.chat_posts.failed(ACCOUNT)] == ["the chat is gone"]
    db.chat_posts.retry(1)
    assert len(db.chat_posts.due(ACCOUNT)) == 1
    db.chat_posts.drop(1)
    assert db.chat_posts.counts(ACCOUNT) == {"dropped": 1}
    with pytest.raises(ChatPostSettled):
        db.chat_posts.drop(1)


@pytest.mark.clause("G3")
def test_a_process_that_lost_the_account_sends_nothing(database: Database) -> None:
    db = database.open()
    old = received_chat(db, "1")
    db.chat_posts.put(NewPost("n", 1, {"text": "hello"}))
    db.chat_posts.plan(1, [{"text": "hello"}], lease=old)
    database.clock.advance(601)
    hold_lease(db, account_lease(ACCOUNT), "other", ttl_seconds=600)
    with pytest.raises(LeaseLost):
        db.chat_posts.move_part(1, 0, ("new", "sending"), lease=old)
    assert [part.state for part in db.chat_posts.parts(1)] == ["new"]


def test_a_part_moves_from_the_state_that_it_is_in(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.chat_posts.put(NewPost("n", 1, {"text": "hello"}))
    db.chat_posts.plan(1, [{"text": "hello"}], lease=lease)
    with pytest.raises(NotWaiting):
        db.chat_posts.move_part(1, 0, ("sending", "sent"), "m", lease=lease)
    db.chat_posts.move_part(1, 0, ("new", "sending"), lease=lease)
    assert db.chat_posts.parts(1)[0].tried is not None
    with pytest.raises(NotWaiting):
        db.chat_posts.move_part(1, 0, ("new", "sending"), lease=lease)


def test_a_deleted_conversation_takes_its_answers_along(db: SessionDB, lease: HeldLease) -> None:
    db.turns.complete("t", assistant("a secret"))
    db.delete_session("s", force=True)
    assert db.chat_posts.counts(ACCOUNT) == {}
