"""How a conversation stands for a person: what the store says, and what only this process knows."""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.core.events import ApprovalAsked
from holdfast.host.ask_records import shown
from holdfast.host.contract import ConversationStatus, OpenAsk, State
from holdfast.host.conversation import Conversation
from holdfast.sessions import SessionDB, StoredStatus
from holdfast.sessions.contract import SECOND, Ask
from holdfast.tools.open_questions import AskEvent


@dataclass(frozen=True, slots=True)
class ObservingHost:
    """The host that looks: the name it holds conversations under, and whether it recovers by itself."""

    holder: str
    recovers: bool


def state_of(stored: StoredStatus, conversation: Conversation | None, here: ObservingHost) -> State:
    """A conversation that another process holds is `elsewhere`, also while a dead one is taken over from."""
    if conversation is not None and conversation.running_turn is not None:
        return "running"
    if stored.holder not in (None, here.holder):
        return "elsewhere"
    if stored.turn_id is not None and stored.holder is None:
        return "elsewhere" if here.recovers else "unfinished"
    return "ended" if stored.ended else "idle"


def status_of(
    stored: StoredStatus, conversation: Conversation | None, here: ObservingHost, asked: int = 0
) -> ConversationStatus:
    """The conversation as it stands now; `asked` is what another process asks in it."""
    running = None if conversation is None else conversation.running_turn
    return ConversationStatus(
        root_id=stored.root_id,
        session_id=stored.session_id,
        state=state_of(stored, conversation, here),
        turn_id=running or (stored.turn_id if stored.holder != here.holder else None),
        waiting=stored.waiting,
        asking=asked + (0 if conversation is None else len(conversation.questions.open())),
        title=stored.title,
        pinned=stored.pinned,
        archived=stored.archived,
        trouble="" if conversation is None else conversation.trouble,
    )


def deleted_status(root_id: str) -> ConversationStatus:
    """A conversation that is deleted."""
    return ConversationStatus(
        root_id=root_id,
        session_id=root_id,
        state="ended",
        turn_id=None,
        waiting=0,
        asking=0,
        title=None,
        pinned=False,
        archived=False,
        deleted=True,
    )


def asks_elsewhere(db: SessionDB, stored: Sequence[StoredStatus], holder: str) -> dict[str, int]:
    """How many asks of other processes wait in these conversations, by their first sessions."""
    return {
        each.root_id: len(db.asks.open(each.session_id))
        for each in stored
        if each.turn_id is not None and each.holder not in (None, holder)
    }


def open_asks(asks: Sequence[Ask], now: float) -> list[OpenAsk]:
    """The approvals and questions that wait for a person, oldest first; `now` is the time in seconds."""
    return [_open_ask(asked, now - ask.created / SECOND) for ask in asks if (asked := shown(ask)) is not None]


def _open_ask(asked: AskEvent, age: float) -> OpenAsk:
    left = min(asked.seconds, max(0.0, asked.seconds - age))
    ids = asked.ask_id, asked.turn_id, asked.call_id
    if isinstance(asked, ApprovalAsked):
        return OpenAsk(
            *ids,
            "approval",
            left,
            subject=asked.subject,
            subject_kind=asked.subject_kind,
            reason=asked.reason,
            destructive=asked.destructive,
            decisions=asked.decisions,
        )
    return OpenAsk(*ids, "question", left, question=asked.question, choices=asked.choices)
