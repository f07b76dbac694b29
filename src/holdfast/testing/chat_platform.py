"""What a chat platform under test can be told to do, so that one suite checks every adapter.

An author implements `ChatPlatform` over a real server or a small one that speaks the platform's protocol.
It is the platform and the people on it; the adapter under test is the bot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from holdfast.gateway.contract import Adapter, Place

Fault = Literal["slow down", "drop before", "drop after", "refuse"]
"""What happens to the next call that sends or edits.

`slow down`: refused for a moment, not taken. `drop before`: the connection breaks, not taken. `drop after`:
taken, but the answer never arrives. `refuse`: refused for good.
"""


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message as the people in a chat see it now."""

    id: str
    text: str
    """Plain, without the platform's marks for bold, code and so on."""
    by_bot: bool
    thread: str = ""
    reply_to: str = ""
    buttons: tuple[str, ...] = ()
    """The values of its buttons."""
    file: bytes | None = None


class ChatPlatform(Protocol):
    """A platform with people on it, for tests. It outlives every adapter that is made for it."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    def adapter(self) -> Adapter:
        """A new adapter with the bot's credentials, as after a restart of the gateway."""
        ...

    async def direct(self, person: str) -> Place:
        """The chat of this person alone with the bot."""
        ...

    async def group(self, people: Sequence[str]) -> Place:
        """A new chat of these people and the bot."""
        ...

    async def say(
        self, place: Place, person: str, text: str, *, mention: bool = False, reply_to: str = ""
    ) -> str:
        """A person says something; returns the platform's id of the message."""
        ...

    async def send_file(self, place: Place, person: str, name: str, content: bytes) -> str: ...

    async def press(self, place: Place, person: str, message_id: str, value: str) -> None:
        """A person presses a button of the bot's message."""
        ...

    async def messages(self, place: Place) -> list[SeenMessage]:
        """Every message that stands in the chat (in its thread, if the place has one), oldest first."""
        ...

    async def fail(self, fault: Fault, times: int = 1) -> None:
        """Let the next calls that send or edit fail."""
        ...

    async def kick(self) -> None:
        """Break the connections through which the bot receives."""
        ...

    async def deliver_again(self) -> None:
        """Deliver what the bot has received once more, as after an acknowledgement that was lost."""
        ...

    def is_typing(self, place: Place) -> bool: ...
