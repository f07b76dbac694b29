"""Chat accounts in the store of a web server, as a gateway leaves them there."""

from dataclasses import replace
from typing import Any

from holdfast import SessionDB
from holdfast.sessions.chat_events import ReceivedEvent, account_lease
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.held_lease import HeldLease
from tests.sessions.chat_fixtures import chat_message
from tests.sessions.store_fixtures import hold_lease

ACCOUNTS = "telegram,work=slack"


def said(event_id: str, name: str, **where: Any) -> ReceivedEvent:  # noqa: ANN401
    sender = f"10{name}"
    body = {"sender": {"id": sender, "name": name}}
    return replace(chat_message(event_id), sender=sender, body=body, **where)


class GatewayTraces:
    """What a gateway would write. It holds the account, as a process of its own."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._leases: dict[str, HeldLease] = {}
        self._posts = 0

    def received(self, account: str, event: ReceivedEvent) -> int:
        """The room of an event that was received and let in."""
        if account not in self._leases:
            self._leases[account] = hold_lease(self._db, account_lease(account), "a gateway", ttl_seconds=600)
        lease = self._leases[account]
        self._db.chat_events.receive(account, [event], {"": event.event_id}, lease=lease)
        [stored] = self._db.chat_events.new(account)
        self._db.chat_events.settle(stored.id, "accepted", lease=lease)
        return stored.room_id

    def lives(self, account: str, room: int, root: str) -> None:
        self._db.chat_events.assign(room, root, lease=self._leases[account])

    def could_not_send(self, account: str, room: int, text: str, error: str) -> int:
        """The id of a post that was set aside."""
        self._posts += 1
        key = f"{account}-{room}-{self._posts}-{text}"
        self._db.chat_posts.put(NewPost(key, room, {"text": text, "outcome": "completed"}, kind="answer"))
        post = self._db.chat_posts.by_key(key)
        assert post is not None
        self._db.chat_posts.settle(post.id, "failed", error, lease=self._leases[account])
        return post.id
