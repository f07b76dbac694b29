"""The responses of the API: the host's dataclasses as typed JSON. Times are milliseconds since 1970."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from holdfast.host.contract import State
from holdfast.host.usage_reports import UsageTotal
from holdfast.sessions.chat_places import ChatPlace

Mode = Literal["queue", "steer", "interrupt"]
Decision = Literal["yes", "always", "no"]


def milliseconds(microseconds: int) -> int:
    """The store's time in the unit of the API."""
    return microseconds // 1000


StoreTime = Annotated[int, BeforeValidator(milliseconds)]
"""A time that is read from an object of the store."""


class View(BaseModel):
    """A response whose fields are read from the attributes of a dataclass."""

    model_config = ConfigDict(from_attributes=True)

    @classmethod
    def of(cls, given: object) -> Self:
        return cls.model_validate(given)


class ChatPlaceView(BaseModel):
    """A chat on a chat platform, or one of its threads."""

    account: str
    platform: str = Field(description="empty: the settings of this server do not name the account")
    chat: str = Field(description="the platform's own id of the chat")
    thread: str
    is_direct: bool = Field(description="whether only one person and the bot are there")
    title: str = Field(description="the name of a group")
    person: str = Field(description="who talked there last: a name, else an id")

    @classmethod
    def at(cls, place: ChatPlace, platform: str) -> Self:
        return cls(
            account=place.account,
            platform=platform,
            chat=place.chat,
            thread=place.thread,
            is_direct=place.is_direct,
            title=place.title,
            person=place.person,
        )


class SessionView(BaseModel):
    """A conversation, by its current session."""

    id: str
    root_id: str = Field(
        description="the conversation's first session; any id of the conversation may be used"
    )
    title: str | None
    label: str = Field(default="", description="its title, or one that is cut from its first message")
    opening: str = Field(description="the beginning of its first message")
    source: str
    scope: str = Field(
        default="", description="whose conversation it is: a person or a room; empty: the owner's"
    )
    pinned: bool
    archived: bool
    started_at: int
    last_active: int
    messages: int
    state: State
    waiting: int = Field(description="messages that no turn has taken yet")
    asking: int = Field(description="approvals and questions that wait for a person")
    parent_id: str | None
    branch_of: str | None = Field(
        default=None, description="of a branch: what the conversation is called that it left"
    )
    trouble: str = Field(default="", description="why it can't go on now, such as a full disk")
    chats: list[ChatPlaceView] = Field(default=[], description="the chats in which it goes on")
    model: str = Field(default="", description="the model that was chosen for it; empty: the usual one")
    workspace: str = Field(default="", description="the folder that was chosen for it; empty: the usual one")
    folder: str = Field(default="", description="the folder of the list that it lies in; empty: none")


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


class UnfinishedView(View):
    """A turn that a crash cut off. It can be resumed, retried or dropped."""

    turn_id: str
    said: str
    finished_calls: int
    open_calls: list[str]
    partial: str


class FailedView(View):
    """The last turn, which failed; its message can be sent again."""

    turn_id: str = Field(validation_alias="id")
    error: Annotated[str, BeforeValidator(lambda reason: reason or "")] = Field(validation_alias="reason")


class WaitingView(View):
    """A message that waits."""

    inbox_id: int = Field(validation_alias="id")
    mode: Mode
    at: StoreTime = Field(validation_alias="created")
    message: dict[str, Any]


class AskView(View):
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


class ToolProfileView(View):
    """Which tools the model is told of in a conversation, and why."""

    name: str
    reason: str
    brief: bool = Field(description="whether tools and system text are described in few words")


class SessionDetail(SessionView):
    """A conversation with all that a page needs to show it."""

    tool_profile: ToolProfileView
    branch_from: str | None = Field(
        description="of a branch: a session of the conversation that it left; null once that is deleted"
    )

    turn_id: str | None
    context_tokens: int
    context_window: int
    lineage: list[LineageView]
    unfinished: UnfinishedView | None
    failed: FailedView | None
    waiting_messages: list[WaitingView]
    asks: list[AskView]
    changed_turns: list[str] = Field(description="the turns whose changes of files are on record")
    usage: UsageTotal = Field(description="what it has used so far, with subagents and summaries")


class MessageView(View):
    """One message of a transcript, in OpenAI's chat shape."""

    seq: int
    session_id: str
    turn_id: str | None
    at: StoreTime = Field(validation_alias="created")
    carried: bool = Field(description="a copy that a compaction made")
    message: dict[str, Any]


class MessagePage(BaseModel):
    items: list[MessageView]
    has_more: bool = Field(description="whether there are more in this direction")


class AcceptedView(View):
    """A message is stored and will not be lost."""

    inbox_id: int
    session_id: str
    mode: Mode
    interrupts: str | None = Field(description="the turn that it interrupts")


class InterruptedView(BaseModel):
    interrupted: bool = Field(description="false: no turn was running")


class CountedView(BaseModel):
    counted: bool = Field(description="false: it was closed already; an answer became the next message")


class BeforeView(BaseModel):
    text: str | None = Field(description="null: no such file, none to compare, or another process runs it")


class CommandView(BaseModel):
    """The command was accepted; the session's events show its progress."""

    session_id: str
