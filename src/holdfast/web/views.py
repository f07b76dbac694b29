"""The responses of the API: the host's dataclasses as typed JSON. Times are milliseconds since 1970."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from holdfast.agent import Unfinished
from holdfast.host import Accepted, OpenAsk
from holdfast.sessions.contract import InboxMessage, StoredMessage, TurnRecord

State = Literal["idle", "running", "elsewhere", "unfinished", "ended"]
Mode = Literal["queue", "steer", "interrupt"]
Decision = Literal["yes", "always", "no"]
DECISIONS: tuple[Decision, ...] = ("yes", "always", "no")


def milliseconds(microseconds: int) -> int:
    """The store's time in the unit of the API."""
    return microseconds // 1000


class SessionView(BaseModel):
    """A conversation, by its current session."""

    id: str
    root_id: str = Field(
        description="the conversation's first session; any id of the conversation may be used"
    )
    title: str | None
    opening: str = Field(description="the beginning of its first message")
    source: str
    pinned: bool
    archived: bool
    started_at: int
    last_active: int
    messages: int
    state: State
    waiting: int = Field(description="messages that no turn has taken yet")
    asking: int = Field(description="approvals and questions that wait for a person")
    parent_id: str | None
    trouble: str = Field(default="", description="why it can't go on now, such as a full disk")


class SessionPage(BaseModel):
    items: list[SessionView]
    next_offset: int | None


class LineageView(BaseModel):
    """One session of a conversation; a compaction ends one and begins the next."""

    id: str
    started_at: int
    ended_at: int | None
    end_reason: str | None
    messages: int


class UnfinishedView(BaseModel):
    """A turn that a crash cut off. It can be resumed, retried or dropped."""

    turn_id: str
    said: str
    finished_calls: int
    open_calls: list[str]
    partial: str

    @classmethod
    def of(cls, given: Unfinished) -> "UnfinishedView":
        return cls(
            turn_id=given.turn_id,
            said=given.said,
            finished_calls=given.finished_calls,
            open_calls=list(given.open_calls),
            partial=given.partial,
        )


class FailedView(BaseModel):
    """The last turn, which failed; its message can be sent again."""

    turn_id: str
    error: str

    @classmethod
    def of(cls, given: TurnRecord) -> "FailedView":
        return cls(turn_id=given.id, error=given.reason or "")


class WaitingView(BaseModel):
    """A message that waits."""

    inbox_id: int
    mode: Mode
    at: int
    message: dict[str, Any]

    @classmethod
    def of(cls, given: InboxMessage) -> "WaitingView":
        return cls(
            inbox_id=given.id, mode=given.mode, at=milliseconds(given.created), message=dict(given.message)
        )


class AskView(BaseModel):
    """An approval or a question that a turn waits for."""

    ask_id: str
    turn_id: str
    call_id: str
    kind: Literal["approval", "question"]
    subject: str = ""
    subject_kind: str = ""
    reason: str = ""
    destructive: bool = False
    decisions: list[Decision] = Field(
        default=[], description="the possible answers to an approval; `always` only where it has an effect"
    )
    question: str = ""
    choices: list[str] = []
    seconds_left: float

    @classmethod
    def of(cls, given: OpenAsk) -> "AskView":
        return cls(
            ask_id=given.ask_id,
            turn_id=given.turn_id,
            call_id=given.call_id,
            kind=given.kind,
            subject=given.subject,
            subject_kind=given.subject_kind,
            reason=given.reason,
            destructive=given.destructive,
            decisions=[each for each in DECISIONS if each in given.decisions],
            question=given.question,
            choices=list(given.choices),
            seconds_left=given.seconds_left,
        )


class SessionDetail(SessionView):
    """A conversation with all that a page needs to show it."""

    turn_id: str | None
    context_tokens: int
    context_window: int
    lineage: list[LineageView]
    unfinished: UnfinishedView | None
    failed: FailedView | None
    waiting_messages: list[WaitingView]
    asks: list[AskView]


class MessageView(BaseModel):
    """One message of a transcript, in OpenAI's chat shape."""

    seq: int
    session_id: str
    turn_id: str | None
    at: int
    carried: bool = Field(description="a copy that a compaction made")
    message: dict[str, Any]

    @classmethod
    def of(cls, given: StoredMessage) -> "MessageView":
        return cls(
            seq=given.seq,
            session_id=given.session_id,
            turn_id=given.turn_id,
            at=milliseconds(given.created),
            carried=given.carried,
            message=dict(given.message),
        )


class MessagePage(BaseModel):
    items: list[MessageView]
    has_more: bool = Field(description="whether there are more in this direction")


class AcceptedView(BaseModel):
    """A message is stored and will not be lost."""

    inbox_id: int
    session_id: str
    mode: Mode
    interrupts: str | None = Field(description="the turn that it interrupts")

    @classmethod
    def of(cls, given: Accepted) -> "AcceptedView":
        return cls(
            inbox_id=given.inbox_id,
            session_id=given.session_id,
            mode=given.mode,
            interrupts=given.interrupts,
        )


class InterruptedView(BaseModel):
    interrupted: bool = Field(description="false: no turn was running")


class CountedView(BaseModel):
    counted: bool = Field(description="false: it was closed already; an answer became the next message")


class CommandView(BaseModel):
    """The command was accepted; the session's events show its progress."""

    session_id: str
