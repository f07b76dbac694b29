"""How a turn ended, as it is on record: for turns of another process, and for ends that were not heard of."""

from holdfast.agent.transcript import text_of
from holdfast.core.events import Event, TurnCompleted, TurnFailed, TurnInterrupted
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Turn


def end_of(turn: Turn, said: str) -> Event:
    """The event that tells the end of a turn; `said` is its last answer."""
    where = {"session_id": turn.session_id, "turn_id": turn.id}
    if turn.state == "interrupted":
        return TurnInterrupted(**where, reason=turn.reason or "")
    if turn.state == "failed":
        return TurnFailed(**where, error=turn.reason or "")
    return TurnCompleted(**where, final_response=said)


def end_on_record(db: SessionDB, turn_id: str) -> Event | None:
    """How the turn ended; None while it is open."""
    turn = db.turns.get(turn_id)
    if turn is None or turn.state == "running":
        return None
    messages = db.turns.messages(turn_id)
    return end_of(turn, text_of(messages[-1]) if messages else "")
