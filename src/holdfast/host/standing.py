"""How a conversation stands for a person: what the store says, and what only this process knows."""

from holdfast.core.events import ApprovalAsked
from holdfast.host.contract import OpenAsk, SessionChange, State
from holdfast.host.conversation import Conversation
from holdfast.sessions import Standing
from holdfast.tools.asking import OpenQuestions


def state_of(standing: Standing, conversation: Conversation | None, holder: str) -> State:
    """`holder` is this process; who else holds the conversation runs it elsewhere."""
    if conversation is not None and conversation.running_turn is not None:
        return "running"
    if standing.holder not in (None, holder):
        return "elsewhere"
    if standing.turn_id is not None and standing.holder is None:
        return "unfinished"
    return "ended" if standing.ended else "idle"


def change_of(standing: Standing, conversation: Conversation | None, holder: str) -> SessionChange:
    """The conversation as it stands now."""
    running = None if conversation is None else conversation.running_turn
    return SessionChange(
        root_id=standing.root_id,
        session_id=standing.session_id,
        state=state_of(standing, conversation, holder),
        turn_id=running or (standing.turn_id if standing.holder != holder else None),
        waiting=standing.waiting,
        asking=0 if conversation is None else len(conversation.questions.open()),
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


def open_asks(questions: OpenQuestions) -> list[OpenAsk]:
    """What waits for a person's word, oldest first."""
    asks: list[OpenAsk] = []
    for asked, left in questions.open_with_time():
        if isinstance(asked, ApprovalAsked):
            ask = OpenAsk(
                asked.ask_id,
                asked.turn_id,
                asked.call_id,
                "approval",
                left,
                subject=asked.subject,
                subject_kind=asked.subject_kind,
                reason=asked.reason,
                destructive=asked.destructive,
            )
        else:
            ask = OpenAsk(
                asked.ask_id,
                asked.turn_id,
                asked.call_id,
                "question",
                left,
                question=asked.question,
                choices=asked.choices,
            )
        asks.append(ask)
    return asks
