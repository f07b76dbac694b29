"""What the tests of hostile people share: forged events, and what was heard and decided."""

from collections.abc import Callable
from dataclasses import replace

from holdfast.gateway.contract import Incoming, Place
from holdfast.host import SessionHost
from holdfast.models.contract import Model, ModelRequest
from holdfast.testing import ScriptedModel
from holdfast.testing.memory_platform import NOWHERE, MemoryPlatform
from tests.gateway.gateway_fixtures import until_status


def said_by_bot(platform: MemoryPlatform, place: Place) -> list[str]:
    return [each.text for each in platform.seen(place) if each.by_bot]


def put_event(platform: MemoryPlatform, place: Place, person: str, event: Incoming) -> None:
    """Deliver an event as no honest client would make it."""
    server = platform.server
    number = len(server.events) + 1
    server.events.append(
        replace(
            event,
            id=f"forged{number}",
            place=place,
            sender=replace(NOWHERE.sender, id=f"person-{person}", name=event.sender.name or person),
            sent=int(server.clock.now() * 1_000_000),
            is_direct=server.chats[place.chat].is_direct,
            chat_title=event.chat_title or server.chats[place.chat].title,
            message_id=event.message_id or f"forged{number}",
        )
    )
    server.changed()


async def until_decided(host: SessionHost, count: int) -> None:
    """Wait until the router has decided about so many events."""
    await until_status(
        host,
        lambda now: (
            not now.events.get("new") and sum(now.events.values()) - now.events.get("joined", 0) >= count
        ),
    )


def texts_of(requests: list[ModelRequest]) -> list[str]:
    return [
        str(each["content"]) for request in requests for each in request.messages if each["role"] == "user"
    ]


def listening(heard: list[ModelRequest]) -> Callable[[str], Model]:
    """A model that keeps what it was asked, and says ok."""

    def answer(request: ModelRequest) -> str:
        heard.append(request)
        return "ok"

    return lambda _: ScriptedModel([answer] * 100)
