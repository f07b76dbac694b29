"""The port between Holdfast and a chat platform: what an adapter does, and the data that passes through it.

Read this first, then `chat_account.py` (the life of one account). An adapter speaks one platform's protocol
and nothing else: it receives, sends, edits, and says what the platform allows. What must survive a crash is
the gateway's: it stores what an adapter received before the adapter acknowledges it, and it records every
message it sends, before and after the call.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from holdfast.core.errors import HoldfastError, Retryable

EventKind = Literal["message", "press"]
Repeat = Literal["key", "look", "placeholder"]


@dataclass(frozen=True, slots=True)
class Sender:
    """Who said it. `id` is the platform's stable id; `name` may change and is never used to decide."""

    id: str
    name: str
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """Where on the platform: a chat and, where it has threads, one of them."""

    chat: str
    thread: str = ""


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A file that a person sent; `ref` is what the adapter needs to fetch it."""

    ref: str
    name: str
    media_type: str
    size: int | None = None
    is_voice: bool = False


@dataclass(frozen=True, slots=True)
class Incoming:
    """One thing that happened on the platform: a message, or the press of a button."""

    id: str
    """The platform's id of this event: the same when the platform delivers it again."""
    place: Place
    sender: Sender
    sent: int
    """When, by the platform's clock, in microseconds since the epoch."""
    kind: EventKind = "message"
    text: str = ""
    """The message as plain text, without the mention of the bot; or the value of the pressed button."""
    is_direct: bool = True
    """Whether the chat has only this person and the bot."""
    is_mention: bool = False
    """Whether it is meant for the bot: it names the bot or answers one of its messages."""
    chat_title: str = ""
    reply_to: str = ""
    """The platform's id of the message that this one answers."""
    quoted: str = ""
    """The text of that message, where the platform sends it along."""
    files: tuple[ChatFile, ...] = ()
    message_id: str = ""
    """The id under which this message can be answered; for a press, the message that has the button."""
    press_token: str = ""
    """What `confirm_press` needs, for a press."""


Acknowledge = Callable[[], Awaitable[None]]


async def _acknowledged() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Batch:
    """What was received together. Events and cursors are stored in one transaction, then acknowledged."""

    events: tuple[Incoming, ...]
    cursors: Mapping[str, str] = field(default_factory=dict)
    """How far the receiver has got, by name (a chat's id, or "" for the whole account)."""
    acknowledge: Acknowledge = _acknowledged
    """Tells the platform that it need not deliver these again."""
    caught_up: bool = True
    """False while more of what was sent during the absence is still to come."""


@dataclass(frozen=True, slots=True)
class Button:
    """A button under a message. `value` comes back with its press; at most 64 bytes of ASCII."""

    label: str
    value: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message for the platform: Markdown that fits into one of its messages, or a file with a caption."""

    text: str
    buttons: tuple[Button, ...] = ()
    file: Path | None = None
    is_silent: bool = False
    """Notify nobody, where the platform can."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a message goes. It is chosen once and stored, so that a restart sends to the same place."""

    place: Place
    reply_to: str = ""
    """The platform's id of the message that is answered."""
    is_group: bool = False
    """Whether others than one person and the bot read there."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as platforms list them, without its slash."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The account that the adapter is signed in with."""

    id: str
    name: str
    invite: str = ""
    """How a person begins to talk with it, in one sentence."""


@dataclass(frozen=True, slots=True)
class AdapterTraits:
    """What the platform allows, and how a message can be sent again without being seen twice."""

    max_size: int
    """The largest message, as `Adapter.measure` counts it."""
    repeat: Repeat
    """`key`: the platform takes the same key once. `look`: `find_sent` finds a message by its key.

    `placeholder`: neither; a short placeholder is sent first and edited into the answer.
    """
    key_seconds: float = 0.0
    """With `key`: for how long the platform remembers a key; after that `find_sent` is asked. 0: for ever."""
    chat_seconds: float = 1.0
    """The least time between two calls for one chat (sends, edits and typing together)."""
    group_seconds: float = 0.0
    """The least time between two messages or edits in a group, where that is longer."""
    account_per_second: float = 30.0
    """How many calls the account may make in a second."""
    edit_seconds: float = 1.0
    """How often a message that grows is edited."""
    typing_seconds: float = 5.0
    """For how long "typing" is shown; 0: the platform has no such sign."""
    max_upload: int = 20_000_000
    max_download: int = 20_000_000
    has_buttons: bool = True
    can_edit: bool = True
    has_history: bool = False
    """Whether `history` works: the last messages of a chat can be read."""


class Adapter(Protocol):
    """One account on one platform. Every method runs on the gateway's event loop.

    A call that fails raises one of the errors below, never a library's own.
    """

    traits: AdapterTraits

    async def connect(self) -> Identity:
        """Check the credentials; nothing is received yet. `SignInRefused` when they are wrong."""
        ...

    def receive(self, cursors: Mapping[str, str]) -> AsyncGenerator[Batch, None]:
        """What was sent since these cursors, oldest first, then what comes, for as long as it is read.

        The first batches bring what was missed; the one that ends it, maybe an empty one, has `caught_up`.
        Live events that come during the catch-up are held back, so that the events of a chat stay in order.
        Without cursors (the first start) nothing of the past is received. After a broken connection the
        adapter raises `Unreachable`, and is asked again with the stored cursors. The next batch is asked for
        only when the last one is stored and acknowledged.
        """
        ...

    async def send(self, route: Route, message: Outgoing, key: str) -> str:
        """Send a message; returns the platform's id of it. `key` is the same when the gateway tries again."""
        ...

    async def find_sent(self, route: Route, key: str) -> str | None:
        """The id of a message of ours that was sent with this key, if the platform shows one."""
        ...

    async def edit(self, route: Route, message_id: str, message: Outgoing) -> None:
        """Replace a message of ours. That it reads so already is a success."""
        ...

    async def delete(self, route: Route, message_id: str) -> None:
        """Remove a message of ours. That it is gone already is a success."""
        ...

    async def react(self, route: Route, message_id: str, emoji: str) -> None:
        """Put a sign on a person's message. That it is there already is a success."""
        ...

    async def show_typing(self, route: Route) -> None:
        """Show "typing" for `typing_seconds`."""
        ...

    async def stop_typing(self, route: Route) -> None:
        """Take the sign away, where the platform can."""
        ...

    async def confirm_press(self, press: Incoming, note: str) -> None:
        """Tell the person who pressed a button what came of it. A press that is too old is a success."""
        ...

    async def download(self, file: ChatFile, target: Path, most: int) -> None:
        """Write a person's file to `target`; `FileTooLarge` once it has more than `most` bytes."""
        ...

    async def history(self, place: Place, before: str, most: int) -> Sequence[Incoming]:
        """The messages before this one, oldest first; empty where the platform has no history."""
        ...

    async def set_commands(self, commands: Sequence[Command]) -> None:
        """Tell the platform which commands there are, where it lists them."""
        ...

    def measure(self, markdown: str) -> int:
        """How large this text is on the platform, in its own form and its own unit."""
        ...

    async def close(self) -> None:
        """Let go of every connection. Idempotent."""
        ...


class ChatPlatformError(HoldfastError):
    """A chat platform did not do what was asked."""


class SlowDown(ChatPlatformError, Retryable):
    """The platform wants the next call later; this one was not taken."""

    def __init__(self, seconds: float, *, whole_account: bool = False) -> None:
        super().__init__(f"the platform wants the next call in {seconds:g} s")
        self.seconds = seconds
        self.whole_account = whole_account


class NotTaken(ChatPlatformError, Retryable):
    """The call did not reach the platform, or the platform says that it did nothing."""


class Unreachable(ChatPlatformError, Retryable):
    """The connection broke: the platform may have taken the call or not."""


class SendRefused(ChatPlatformError):
    """The platform will never take this: the chat is gone, or the bot was removed from it."""


class SignInRefused(ChatPlatformError):
    """The credentials are wrong or were taken back."""


class TakenElsewhere(ChatPlatformError):
    """Another receiver uses the same credentials."""


class FileTooLarge(ChatPlatformError):
    """A file has more bytes than may be fetched or sent."""
