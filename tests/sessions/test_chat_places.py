"""Where conversations live, in words that a person recognises."""

from holdfast.sessions import SessionDB
from holdfast.sessions.chat_places import ChatPlace
from holdfast.sessions.chat_posts import NewPost
from tests.sessions.chat_fixtures import ACCOUNT, chat_message, received_chat, turn_of_chat


def body(name: str) -> dict[str, dict[str, str]]:
    return {"sender": {"id": "p1", "name": name}}


def test_a_conversation_says_in_which_chats_it_lives_and_with_whom(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.create_session("s", source="gateway")
    db.create_session("other", source="web")
    turn_of_chat(db, lease)
    db.chat_events.assign(1, "s", lease=lease)
    db.chat_events.receive(
        ACCOUNT, [chat_message("9", chat="g", is_direct=False, title="The crew")], {}, lease=lease
    )
    db.chat_events.assign(2, "s", lease=lease)
    assert db.chat_places.of(["s", "other", "none"]) == {
        "s": [
            ChatPlace(1, ACCOUNT, "c1", "", True, "", "p1"),
            ChatPlace(2, ACCOUNT, "g", "", False, "The crew", ""),
        ]
    }
    assert db.chat_places.of([]) == {}


def test_a_person_is_called_by_the_name_that_the_owner_saw_then_by_the_platforms(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.chat_events.receive(ACCOUNT, [chat_message("2", body=body("Ada on the platform"))], {}, lease=lease)
    for each in db.chat_events.new(ACCOUNT):
        db.chat_events.settle(each.id, "accepted", lease=lease)
    assert db.chat_places.of_rooms([1, 1, 7])[1].person == "Ada on the platform"
    db.chat_people.put(ACCOUNT, "p1", "user", name="Ada")
    assert db.chat_places.of_rooms([1])[1].person == "Ada"


def test_strangers_give_a_chat_no_name(db: SessionDB) -> None:
    lease = received_chat(db, "1")
    db.chat_events.settle(1, "refused", note="a stranger", lease=lease)
    assert db.chat_places.of_rooms([1])[1].person == ""


def test_what_waits_for_a_person_is_counted(db: SessionDB) -> None:
    assert db.chat_places.waiting() == 0
    lease = received_chat(db, "1")
    db.chat_posts.put(NewPost("n", 1, {"text": "hello"}))
    db.chat_people.pair("slack", "p2", "", "CODE")
    assert db.chat_places.waiting() == 1
    db.chat_posts.settle(1, "failed", "the chat is gone", lease=lease)
    assert db.chat_places.waiting() == 2


def test_every_account_of_the_store_is_known(db: SessionDB) -> None:
    assert db.chat_places.accounts() == []
    received_chat(db, "1")
    db.chat_people.put("telegram", "p1", "owner")
    db.chat_people.pair("slack", "p2", "", "CODE")
    assert db.chat_places.accounts() == [ACCOUNT, "slack", "telegram"]
