"""Events of a platform as the store keeps them, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from holdfast.core.messages import storable
from holdfast.gateway.contract import ChatFile, Incoming, Place, Sender
from holdfast.sessions.chat_events import ReceivedEvent


def to_received(event: Incoming) -> ReceivedEvent:
    """The event as it is stored."""
    return ReceivedEvent(
        event_id=event.id,
        chat=event.place.chat,
        thread=storable(event.place.thread),
        is_direct=event.is_direct,
        title=storable(event.chat_title),
        kind=event.kind,
        sender=storable(event.sender.id),
        message_id=storable(event.message_id),
        sent=event.sent,
        body=asdict(event),
    )


def to_incoming(body: Mapping[str, Any]) -> Incoming:
    """The event as the adapter gave it."""
    return Incoming(
        **{
            **body,
            "place": Place(**body["place"]),
            "sender": Sender(**body["sender"]),
            "files": tuple(ChatFile(**each) for each in body["files"]),
        }
    )
