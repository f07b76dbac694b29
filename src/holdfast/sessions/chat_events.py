"""Chat events: what a chat platform delivered, stored once before the platform hears that it was taken.

An event belongs to a room: a chat of an account, or one of its threads. A message that is let in becomes an
inbox message with the event's key; from there on the turn knows the room that its answer goes to
(`chat_posts.py`). Only the process that holds the account's lease changes anything here.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

from holdfast.core.errors import InvalidInput
from holdfast.sessions.codec import checked_limit, checked_name, checked_seconds, is_storable, to_json
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.operations import operation

EventState = Literal["new", "joined", "accepted", "done", "refused", "expired"]
SETTLED: tuple[EventState, ...] = ("accepted", "done", "refused", "expired")


def account_lease(account: str) -> str:
    """The name of the lease under which one process receives and sends for an account."""
    return f"chat:{account}"


@dataclass(frozen=True, slots=True)
class ChatRoom:
    """A chat of an account, or one of its threads, and the conversation that goes on there."""

    id: int
    account: str
    chat: str
    thread: str
    is_direct: bool
    title: str
    session_id: str | None
    """The conversation's first session, which may have yet to begin; None: the next message chooses one."""


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event as it is stored. `body` is plain data that the gateway reads again."""

    event_id: str
    chat: str
    thread: str
    is_direct: bool
    title: str
    kind: Literal["message", "press"]
    sender: str
    message_id: str
    sent: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatEvent:
    """A stored event."""

    id: int
    key: str
    """The key of the inbox message that it becomes."""
    room_id: int
    event_id: str
    kind: str
    sender: str
    message_id: str
    body: dict[str, Any]
    sent: int
    received: int
    state: EventState
    note: str
    """Why it was refused."""


class ChatEvents:
    """The rooms, cursors and events of chat platforms."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def receive(
        self,
        account: str,
        events: Sequence[ReceivedEvent],
        cursors: Mapping[str, str],
        *,
        lease: HeldLease,
    ) -> list[int]:
        """Store what was received and how far the receiver has got; returns the indexes of new events."""
        return self._engine.write(receive_chat_events(account, events, cursors, lease=lease))

    def cursors(self, account: str) -> dict[str, str]:
        return self._engine.read(
            lambda tx: dict(tuple(row) for row in tx.queries.chat_cursors(account=account))
        )

    def new(self, account: str, *, limit: int | None = None) -> list[ChatEvent]:
        """What nobody has decided about yet, in the order in which it was received.

        With a limit each room has its share, so that no room keeps the events of others from being seen.
        """
        most = checked_limit(limit)

        def work(tx: Transaction) -> list[ChatEvent]:
            rows = tx.queries.new_chat_events(account=account, limit=most)
            return sorted(map(_event, rows), key=lambda event: event.id)

        return self._engine.read(work)

    def get(self, event_id: int) -> ChatEvent | None:
        def work(tx: Transaction) -> ChatEvent | None:
            row = tx.queries.get_chat_event(id=event_id)
            return None if row is None else _event(row)

        return self._engine.read(work)

    def joined(self, event_id: int) -> list[ChatEvent]:
        """The earlier messages that were joined into this one, in order."""
        return self._engine.read(
            lambda tx: [_event(row) for row in tx.queries.joined_chat_events(id=event_id)]
        )

    def earlier(self, event: ChatEvent, note: str, *, limit: int) -> list[ChatEvent]:
        """What was refused with this note in the room since its last accepted message, oldest first."""
        most = checked_limit(limit)

        def work(tx: Transaction) -> list[ChatEvent]:
            rows = tx.queries.earlier_chat_events(
                room_id=event.room_id, before=event.id, note=note, limit=most
            )
            return [_event(row) for row in rows][::-1]

        return self._engine.read(work)

    def conversations(self, room_id: int) -> list[str]:
        """The conversations that went on in a room, the last one first."""
        return self._engine.read(
            lambda tx: [row[0] for row in tx.queries.chat_conversations(room_id=room_id)]
        )

    def of_turn(self, turn_id: str) -> ChatRoom | None:
        """The room that a turn's answer goes to; None when no chat's message opened it."""

        def work(tx: Transaction) -> ChatRoom | None:
            row = tx.queries.chat_room_of_turn(turn_id=turn_id)
            return None if row is None else _room(row)

        return self._engine.read(work)

    def refused(self, account: str, *, limit: int = 50) -> list[ChatEvent]:
        """What was refused or came too late, the newest first."""
        most = checked_limit(limit)
        return self._engine.read(
            lambda tx: [_event(row) for row in tx.queries.refused_chat_events(account=account, limit=most)]
        )

    def accepted_since(self, account: str, sender: str, seconds: float) -> int:
        """How many messages of a person, with those of /retry, were let in within so many seconds."""
        span = checked_seconds("a time", seconds)
        return self._engine.read(
            lambda tx: int(tx.queries.accepted_chat_events(account=account, sender=sender, span_us=span))
        )

    def last_accepted(self, room_id: int) -> int | None:
        """When the last message that was let in there was sent; None when there is none."""

        def work(tx: Transaction) -> int | None:
            found: int | None = tx.queries.last_accepted_chat_event(room_id=room_id)
            return found

        return self._engine.read(work)

    def counts(self, account: str) -> dict[str, int]:
        """How many events are in each state."""
        return self._engine.read(
            lambda tx: dict(tuple(row) for row in tx.queries.chat_event_counts(account=account))
        )

    def join(self, events: Sequence[int], *, lease: HeldLease) -> None:
        """Make one message of several: all but the last become part of the last."""
        self._engine.write(join_chat_events(events, lease=lease))

    def settle(
        self,
        event_id: int,
        state: EventState,
        *,
        note: str = "",
        session_id: str | None = None,
        lease: HeldLease,
    ) -> bool:
        """Record what came of an event, with those that were joined into it; False when that is on record."""
        return self._engine.write(
            settle_chat_event(event_id, state, note=note, session_id=session_id, lease=lease)
        )

    def pass_over(self, event: ChatEvent, note: str, *, keep: int, lease: HeldLease) -> None:
        """Refuse an event of a group; only the last `keep` with this note keep their words."""
        self._engine.write(pass_over_chat_event(event, note, keep=keep, lease=lease))

    # rooms

    def room(self, room_id: int) -> ChatRoom | None:
        def work(tx: Transaction) -> ChatRoom | None:
            row = tx.queries.get_chat_room(id=room_id)
            return None if row is None else _room(row)

        return self._engine.read(work)

    def rooms(self, account: str) -> list[ChatRoom]:
        return self._engine.read(
            lambda tx: [_room(row) for row in tx.queries.chat_rooms_of_account(account=account)]
        )

    def rooms_of(self, root_id: str) -> list[ChatRoom]:
        """The rooms in which a conversation goes on."""
        return self._engine.read(
            lambda tx: [_room(row) for row in tx.queries.chat_rooms_of_session(session_id=root_id)]
        )

    def assign(self, room_id: int, session_id: str | None, *, lease: HeldLease) -> None:
        """Let a room go on in this conversation; None: the next message chooses a new one."""
        self._engine.write(assign_chat_room(room_id, session_id, lease=lease))


@operation
def receive_chat_events(
    account: str, events: Sequence[ReceivedEvent], cursors: Mapping[str, str], *, lease: HeldLease
) -> Callable[[Transaction], list[int]]:
    """Store events that are not on record yet, and the cursors, for the holder of the account's lease."""
    checked_name("an account", account)
    rows = [_checked(account, each) for each in events]
    places = [_cursor(name, value) for name, value in cursors.items()]

    def work(tx: Transaction) -> list[int]:
        new = []
        for number, (room, event) in enumerate(rows):
            room_id = tx.queries.put_chat_room(account=account, **room)
            stored = tx.queries.put_chat_event(account=account, chat=room["chat"], room_id=room_id, **event)
            if stored is not None:
                new.append(number)
        for name, value in places:
            tx.queries.set_chat_cursor(account=account, name=name, value=value)
        lease.require(tx)
        return new

    return work


@operation
def join_chat_events(events: Sequence[int], *, lease: HeldLease) -> Callable[[Transaction], None]:
    """Make all but the last of these new events part of the last."""

    def work(tx: Transaction) -> None:
        for each in events[:-1]:
            tx.queries.join_chat_event(id=each, to=events[-1])
        lease.require(tx)

    return work


@operation
def settle_chat_event(
    event_id: int, state: EventState, *, note: str = "", session_id: str | None = None, lease: HeldLease
) -> Callable[[Transaction], bool]:
    """Record what came of a new event; False when something is on record already."""
    if state not in SETTLED or not is_storable(note):
        raise InvalidInput(f"an event is settled as one of {', '.join(SETTLED)}, not as {state!r}")

    def work(tx: Transaction) -> bool:
        lease.require(tx)
        if not tx.queries.settle_chat_event(id=event_id, state=state, note=note, session_id=session_id):
            return False
        tx.queries.settle_joined_chat_events(id=event_id, session_id=session_id)
        return True

    return work


@operation
def pass_over_chat_event(
    event: ChatEvent, note: str, *, keep: int, lease: HeldLease
) -> Callable[[Transaction], None]:
    """Refuse an event of a group, and erase the words of older ones that were refused for the same reason."""

    def work(tx: Transaction) -> None:
        lease.require(tx)
        tx.queries.settle_chat_event(id=event.id, state="refused", note=note, session_id=None)
        tx.queries.erase_earlier_chat_events(
            room_id=event.room_id, before=event.id, note=note, keep=max(1, keep)
        )

    return work


@operation
def assign_chat_room(
    room_id: int, session_id: str | None, *, lease: HeldLease
) -> Callable[[Transaction], None]:
    """Let a room go on in another conversation, or in none yet."""
    if session_id is not None:
        checked_name("a session id", session_id)

    def work(tx: Transaction) -> None:
        lease.require(tx)
        tx.queries.assign_chat_room(id=room_id, session_id=session_id)

    return work


def _checked(account: str, event: ReceivedEvent) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of an event and of its room."""
    names = [checked_name("an event's id", event.event_id), checked_name("a chat", event.chat)]
    texts = (event.thread, event.title, event.sender, event.message_id)
    if not all(map(is_storable, texts)):
        raise InvalidInput("an event's names must be plain text without NUL or half surrogate pairs")
    key = sha256(to_json([account, *names[::-1]]).encode()).hexdigest()[:40]
    room = {
        "chat": event.chat,
        "thread": event.thread,
        "is_direct": int(event.is_direct),
        "title": event.title,
    }
    return room, {
        "event_id": event.event_id,
        "key": f"chat-event:{key}",
        "kind": event.kind,
        "sender": event.sender,
        "message_id": event.message_id,
        # Escaped to ASCII: people may send characters that no store takes.
        "event": json.dumps(dict(event.body)),
        "sent": event.sent,
    }


def _cursor(name: str, value: str) -> tuple[str, str]:
    if not is_storable(name) or not is_storable(value):
        raise InvalidInput("a cursor must be plain text without NUL or half surrogate pairs")
    return name, value


def _room(row: Sequence[Any]) -> ChatRoom:
    room_id, account, chat, thread, is_direct, title, session_id = row
    return ChatRoom(room_id, account, chat, thread, bool(is_direct), title, session_id)


def _event(row: Sequence[Any]) -> ChatEvent:
    event_id, key, room_id, platform_id, kind, sender, message_id, body, *rest = row
    return ChatEvent(event_id, key, room_id, platform_id, kind, sender, message_id, json.loads(body), *rest)
