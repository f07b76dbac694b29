"""What happens in a turn, as typed events. Every surface renders this one stream.

An event belongs to a session and, while a turn runs, to that turn. `to_json` and `event_from_json` carry
events across processes; the `kind` in the JSON is the class's name.
"""

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a session."""

    session_id: str

    def to_json(self) -> dict[str, Any]:
        """The event as plain JSON data with its kind."""
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True, kw_only=True)
class MessageAccepted(Event):
    """A user's message is stored in the inbox."""

    inbox_id: int
    mode: str


@dataclass(frozen=True, kw_only=True)
class TurnEvent(Event):
    """Something that happened in one turn."""

    turn_id: str


@dataclass(frozen=True, kw_only=True)
class TurnStarted(TurnEvent):
    """The turn's row and the user's message are stored."""


@dataclass(frozen=True, kw_only=True)
class TextDelta(TurnEvent):
    """A piece of the answer's text."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ReasoningDelta(TurnEvent):
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, kw_only=True)
class ToolStarted(TurnEvent):
    """A tool call begins; its arguments are complete."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, kw_only=True)
class ToolFinished(TurnEvent):
    """A tool's result is stored."""

    call_id: str
    name: str
    ok: bool
    output: str


@dataclass(frozen=True, kw_only=True)
class SessionRotated(TurnEvent):
    """Compaction moved the conversation to a child session."""

    child_id: str


@dataclass(frozen=True, kw_only=True)
class TurnCompleted(TurnEvent):
    """The answer is stored together with what is owed to memory; the session is idle."""

    final_response: str


@dataclass(frozen=True, kw_only=True)
class TurnInterrupted(TurnEvent):
    """The turn was stopped; what it had produced is kept."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class TurnFailed(TurnEvent):
    """The turn ended with an error; what it had produced is kept."""

    error: str


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        MessageAccepted,
        TurnStarted,
        TextDelta,
        ReasoningDelta,
        ToolStarted,
        ToolFinished,
        SessionRotated,
        TurnCompleted,
        TurnInterrupted,
        TurnFailed,
    )
}


def event_from_json(data: dict[str, Any]) -> Event:
    """Read an event that `to_json` wrote."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"unknown event kind {kind!r}")
    try:
        return KINDS[kind](**fields)
    except TypeError as cause:
        raise InvalidInput(f"not a {kind} event: {cause}") from cause
