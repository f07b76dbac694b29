"""Turns as rows: found, and locked where they are now. What happens in a turn is in `turn_operations.py`."""

from holdfast.core.errors import TurnNotFound, TurnNotRunning
from holdfast.sessions.contract import Transaction, TurnRecord
from holdfast.sessions.held_lease import HeldLease


def find_turn(tx: Transaction, turn_id: str) -> TurnRecord | None:
    row = tx.queries.get_turn(id=turn_id)
    return None if row is None else TurnRecord(*row)


def require_turn(tx: Transaction, turn_id: str) -> TurnRecord:
    turn = find_turn(tx, turn_id)
    if turn is None:
        raise TurnNotFound(turn_id)
    return turn


def lock_turn(tx: Transaction, turn_id: str, lease: HeldLease | None = None) -> TurnRecord:
    """Lock the session that the turn is in now, then the lease, if one is given (`HeldLease.require`)."""
    while True:
        locked = None if tx.alone else tx.queries.ahead.lock_session_of_turn(turn_id=turn_id)
        held = None if lease is None else lease.require_ahead(tx)
        turn = find_turn(tx, turn_id)
        if held is not None:
            # Whoever took the lease may have changed all of it: that is what the caller must hear.
            held()
        if turn is None:
            raise TurnNotFound(turn_id)
        # A rotation may have moved the turn between the look and the lock.
        if locked is None or turn.session_id == locked():
            return turn


def lock_running_turn(tx: Transaction, turn_id: str, lease: HeldLease | None = None) -> TurnRecord:
    turn = lock_turn(tx, turn_id, lease)
    if turn.state != "running":
        raise TurnNotRunning(turn_id, turn.state)
    return turn
