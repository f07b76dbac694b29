"""How a turn ended, as it is on record: for turns of other processes, and for ends that were missed."""

from typing import Any

from holdfast.core.events import TurnCompleted, TurnEnd, TurnFailed, TurnInterrupted
from holdfast.core.messages import text_of
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import TurnRecord


def end_event(turn: TurnRecord, said: str) -> TurnEnd:
    """The event that tells the end of a turn; `said` is its last answer."""
    where: dict[str, Any] = {"session_id": turn.session_id, "turn_id": turn.id}
    if turn.state == "interrupted":
        return TurnInterrupted(**where, reason=turn.reason or "")
    if turn.state == "failed":
        return TurnFailed(**where, error=turn.reason or "")
    return TurnCompleted(**where, final_response=said)


def end_event_on_record(db: SessionDB, turn_id: str) -> TurnEnd | None:
    """How the turn ended; None while it is open."""
    turn = db.turns.get(turn_id)
    if turn is None or turn.state == "running":
        return None
    messages = db.turns.messages(turn_id)
    return end_event(turn, text_of(messages[-1]) if messages else "")
