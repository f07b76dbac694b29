"""The events of a turn and of a session, as types. Every surface renders the same stream of events.

An event belongs to a session and, while a turn runs, to that turn. `to_json` and `event_from_json` carry
events between processes; `kind` in the JSON is the name of the class.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.errors import InvalidInput


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that happened in a session."""

    session_id: str

    def to_json(self) -> dict[str, Any]:
        """The event as plain JSON data with its kind."""
        return {"kind": type(self).__name__, **vars(self)}


INTERRUPTED = "the person interrupted"
"""Why a turn that a person stopped has ended."""

Emit = Callable[[Event], None]
"""Takes the events as they happen. It must not wait."""


@dataclass(frozen=True, kw_only=True)
class MessageAccepted(Event):
    """A user's message is stored in the inbox."""

    inbox_id: int
    mode: str


@dataclass(frozen=True, kw_only=True)
class SessionSnapshot(Event):
    """The state of the session for a reader that joins late: the running turn and its partial answer.

    It includes the events up to `number`. Earlier messages are in the transcript.
    """

    number: int
    turn_id: str
    user_text: str
    text: str
    reasoning: str
    tools: tuple[str, ...]
    waiting: int


@dataclass(frozen=True, kw_only=True)
class SessionMoved(Event):
    """Another process runs this session now (`elsewhere`), or no process does any more."""

    elsewhere: bool


@dataclass(frozen=True, kw_only=True)
class SessionTrouble(Event):
    """A problem stops the session for now. Its messages wait."""

    error: str


@dataclass(frozen=True, kw_only=True)
class TurnEvent(Event):
    """Something that happened in one turn."""

    turn_id: str


@dataclass(frozen=True, kw_only=True)
class TurnStarted(TurnEvent):
    """The turn's row and the user's message are stored. `inbox_id` is 0 when the message never waited."""

    inbox_id: int
    text: str


@dataclass(frozen=True, kw_only=True)
class TurnUnfinished(TurnEvent):
    """A crash ended this turn early. It can be resumed, retried or dropped."""

    text: str
    open_calls: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TurnResumed(TurnEvent):
    """A turn that a crash ended continues from its stored steps. `text` is the message that opened it."""

    text: str


@dataclass(frozen=True, slots=True)
class RecalledFrom:
    """The text that one memory provider recalled for a message; it may be empty."""

    provider: str
    outcome: str
    """`answered`, `late` (an answer that came too late for an earlier turn), `missed` or `failed`."""
    text: str
    cut: int = 0
    """Characters that were left out because they do not fit memory's share of the prompt."""
    note: str = ""
    """How the provider says that this recall was limited, e.g. by full text alone."""


def join_recalled(recalled: Iterable[RecalledFrom]) -> str:
    """Join the recalls of several providers into one text for the prompt."""
    return "\n\n".join(each.text for each in recalled if each.text)


@dataclass(frozen=True, kw_only=True)
class Recalled(TurnEvent):
    """The memory providers were asked about the user's message, within the time limit for recall."""

    seconds: float
    providers: tuple[RecalledFrom, ...]

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "providers": [asdict(each) for each in self.providers]}


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
class ToolOutput(TurnEvent):
    """A piece of a running tool's live output."""

    call_id: str
    text: str


@dataclass(frozen=True, kw_only=True)
class ToolFinished(TurnEvent):
    """A tool's result is stored."""

    call_id: str
    name: str
    ok: bool
    output: str


@dataclass(frozen=True, kw_only=True)
class ApprovalAsked(TurnEvent):
    """The turn waits for a person to allow something. No answer within `seconds` means no."""

    ask_id: str
    call_id: str
    subject: str
    subject_kind: str
    reason: str
    destructive: bool
    seconds: float
    decisions: tuple[str, ...] = ("yes", "always", "no")
    """The possible answers. "always" is one of them only where it has an effect."""


@dataclass(frozen=True, kw_only=True)
class QuestionAsked(TurnEvent):
    """The agent asks the person a question, and the turn waits for the answer."""

    ask_id: str
    call_id: str
    question: str
    choices: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class AskClosed(TurnEvent):
    """An approval or a question is closed; `outcome` says how. Later answers have no effect."""

    ask_id: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class MessageJoined(TurnEvent):
    """A waiting message joined the running turn at this step."""

    inbox_id: int
    text: str


@dataclass(frozen=True, kw_only=True)
class ModelRetrying(TurnEvent):
    """A request to the model failed and is sent again after `delay` seconds.

    The text that was streamed so far is void; `partial` says whether it is kept on record.
    """

    attempt: int
    delay: float
    problem: str
    partial: bool


@dataclass(frozen=True, kw_only=True)
class StepFinished(TurnEvent):
    """One answer of the model is complete; `context` tokens of its `window` are in use."""

    step: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    context: int
    window: int
    cost: str = ""
    """Dollars for this answer, as a decimal number; empty: the price is not known."""
    stop_reason: str = "stop"
    """Why the answer ended: `stop`, `tool_calls`, `length` (at its limit) or `refused`."""
    model: str = ""
    """The model that was asked."""
    provider: str = ""
    """Who offers that model; empty where that is not known."""
    response_model: str = ""
    """The model that answered, as its server names it; empty where it does not say."""


@dataclass(frozen=True, kw_only=True)
class CompactionStarted(TurnEvent):
    """The context is close to the model's window and is being summarised."""

    tokens: int


@dataclass(frozen=True, kw_only=True)
class CompactionFinished(TurnEvent):
    """A compaction ended; `outcome` describes the result."""

    outcome: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, kw_only=True)
class DelegateStarted(TurnEvent):
    """A subagent begins its task in a session of its own."""

    call_id: str
    child_session_id: str
    task: str


@dataclass(frozen=True, kw_only=True)
class DelegateFinished(TurnEvent):
    """A subagent ended; its answer is the result of the tool call."""

    call_id: str
    child_session_id: str
    ok: bool


@dataclass(frozen=True, kw_only=True)
class Notice(TurnEvent):
    """Something that a person should know. The turn continues."""

    text: str


@dataclass(frozen=True, kw_only=True)
class SessionRotated(TurnEvent):
    """Compaction moved the conversation to a child session."""

    child_id: str


@dataclass(frozen=True, kw_only=True)
class TurnCompleted(TurnEvent):
    """The answer is stored, with one outbox row for each memory provider that is owed the turn."""

    final_response: str


@dataclass(frozen=True, kw_only=True)
class TurnInterrupted(TurnEvent):
    """The turn was stopped. Its messages so far are kept."""

    reason: str

    @property
    def ending(self) -> str:
        """What follows the word "interrupted" on a surface: nothing where a person did it, who knows that."""
        return "" if self.reason in ("", INTERRUPTED) else f": {self.reason}"


@dataclass(frozen=True, kw_only=True)
class TurnFailed(TurnEvent):
    """The turn ended with an error. Its messages so far are kept."""

    error: str
    failure: str = ""
    """The name of the error's class, as in `core/errors/`; empty when only the message is known."""
    retry_after: float = 0.0
    """Seconds after which the model's server wants to be asked again; 0 when it did not say."""


TurnEnd = TurnCompleted | TurnFailed | TurnInterrupted
TURN_ENDS = (TurnCompleted, TurnFailed, TurnInterrupted)
"""The same for `isinstance`, which looks through a tuple faster than through a union."""


KINDS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (*Event.__subclasses__(), *TurnEvent.__subclasses__())
    if kind is not TurnEvent
}
"""Every kind of event by its name, in the order of this file."""


def event_from_json(data: dict[str, Any]) -> Event:
    """Read an event that `to_json` wrote."""
    # JSON has no tuples, and no event holds a list.
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
    }
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"unknown event kind {kind!r}")
    try:
        if kind == Recalled.__name__:
            fields["providers"] = tuple(RecalledFrom(**each) for each in fields["providers"])
        return KINDS[kind](**fields)
    except (TypeError, KeyError) as cause:
        raise InvalidInput(f"not a {kind} event: {cause}") from cause
