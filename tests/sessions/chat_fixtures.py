"""Messages of a chat platform in a store, as the gateway puts them there."""

from typing import Any

from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import ReceivedEvent, account_lease
from holdfast.sessions.held_lease import HeldLease
from tests.sessions.store_fixtures import hold_lease, user

ACCOUNT = "a"


def chat_message(event_id: str, text: str = "hello", **how: Any) -> ReceivedEvent:  # noqa: ANN401
    """A message of the person p1 in the direct chat c1."""
    plain: dict[str, Any] = {
        "event_id": event_id,
        "chat": "c1",
        "thread": "",
        "is_direct": True,
        "title": "",
        "kind": "message",
        "sender": "p1",
        "message_id": f"m{event_id}",
        "sent": 1,
        "body": {"text": text},
    }
    return ReceivedEvent(**{**plain, **how})


def received_chat(db: SessionDB, *event_ids: str) -> HeldLease:
    """The lease of the account, under which these messages were received."""
    lease = hold_lease(db, account_lease(ACCOUNT), "me", ttl_seconds=600)
    db.chat_events.receive(
        ACCOUNT, [chat_message(each) for each in event_ids], {"": event_ids[-1]}, lease=lease
    )
    return lease


def turn_of_chat(db: SessionDB, lease: HeldLease, turn_id: str = "t") -> str:
    """The turn that the first new message of the account opens in the session "s"."""
    event = db.chat_events.new(ACCOUNT)[0]
    taken = db.inbox.put("s", user("hello"), key=event.key)
    db.chat_events.settle(event.id, "accepted", session_id="s", lease=lease)
    return db.turns.open("s", take=taken.id, turn_id=turn_id).id
