"""Turns as rows: found, and locked where they are now. What happens in a turn is in `turn_operations.py`."""

from holdfast.core.errors import TurnNotFound, TurnNotRunning
from holdfast.sessions.contract import Transaction, TurnRecord


def find_turn(tx: Transaction, turn_id: str) -> TurnRecord | None:
    row = tx.queries.get_turn(id=turn_id)
    return None if row is None else TurnRecord(*row)


def require_turn(tx: Transaction, turn_id: str) -> TurnRecord:
    turn = find_turn(tx, turn_id)
    if turn is None:
        raise TurnNotFound(turn_id)
    return turn


def lock_turn(tx: Transaction, turn_id: str) -> TurnRecord:
    """Lock the session that the turn is in now."""
    while not tx.alone:
        locked = tx.queries.lock_session_of_turn(turn_id=turn_id)
        turn = require_turn(tx, turn_id)
        # A rotation may have moved the turn between the look and the lock.
        if turn.session_id == locked:
            return turn
    return require_turn(tx, turn_id)


def lock_running_turn(tx: Transaction, turn_id: str) -> TurnRecord:
    turn = lock_turn(tx, turn_id)
    if turn.state != "running":
        raise TurnNotRunning(turn_id, turn.state)
    return turn
