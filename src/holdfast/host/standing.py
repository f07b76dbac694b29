"""How a conversation stands for a person: what the store says, and what only this process knows."""

from collections.abc import Sequence

from holdfast.core.events import ApprovalAsked
from holdfast.host.asks import shown
from holdfast.host.contract import OpenAsk, SessionChange, State
from holdfast.host.conversation import Conversation
from holdfast.sessions import SessionDB, Standing
from holdfast.sessions.contract import SECOND, Ask
from holdfast.tools.asking import Asked


def state_of(standing: Standing, conversation: Conversation | None, holder: str) -> State:
    """`holder` is this process; who else holds the conversation runs it elsewhere."""
    if conversation is not None and conversation.running_turn is not None:
        return "running"
    if standing.holder not in (None, holder):
        return "elsewhere"
    if standing.turn_id is not None and standing.holder is None:
        return "unfinished"
    return "ended" if standing.ended else "idle"


def change_of(
    standing: Standing, conversation: Conversation | None, holder: str, asked: int = 0
) -> SessionChange:
    """The conversation as it stands now; `asked` is what another process asks in it."""
    running = None if conversation is None else conversation.running_turn
    return SessionChange(
        root_id=standing.root_id,
        session_id=standing.session_id,
        state=state_of(standing, conversation, holder),
        turn_id=running or (standing.turn_id if standing.holder != holder else None),
        waiting=standing.waiting,
        asking=asked + (0 if conversation is None else len(conversation.questions.open())),
        title=standing.title,
        pinned=standing.pinned,
        archived=standing.archived,
    )


def gone(root_id: str) -> SessionChange:
    """A conversation that is deleted."""
    return SessionChange(
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


def asked_elsewhere(db: SessionDB, standings: Sequence[Standing], holder: str) -> dict[str, int]:
    """How many asks of other processes wait in these conversations, by their first sessions."""
    return {
        each.root_id: len(db.asks.open(each.session_id))
        for each in standings
        if each.turn_id is not None and each.holder not in (None, holder)
    }


def open_asks(asks: Sequence[Ask], now: float) -> list[OpenAsk]:
    """What waits for a person's word, oldest first; `now` is the time in seconds."""
    return [_open_ask(asked, now - ask.created / SECOND) for ask in asks if (asked := shown(ask)) is not None]


def _open_ask(asked: Asked, age: float) -> OpenAsk:
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
        )
    return OpenAsk(*ids, "question", left, question=asked.question, choices=asked.choices)
