"""Rotation: a compacted conversation goes on in one child session.

Ending the parent, creating the child, copying what it starts with and moving the inbox and the running
turn are one transaction: a crash leaves either the parent open or exactly one usable child. A unique
index refuses a second child even when no lock is held. See docs/decisions/0003.
"""

from collections.abc import Callable, Sequence

from holdfast.core.contract import Message
from holdfast.core.errors import AlreadyContinued, InvalidInput
from holdfast.sessions.codec import checked_name, encode
from holdfast.sessions.contract import Rotation, SessionStart, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import (
    create_session_row,
    insert_message,
    lock_session,
    refuse_ended,
    require_session,
)

END_REASON = "compression"


@operation
def rotate_session(
    session_id: str,
    child_id: str,
    opening: Sequence[Message],
    *,
    carry_from: int,
    leases: Sequence[HeldLease],
) -> Callable[[Transaction], Rotation]:
    """Continue `session_id` in `child_id`: `opening`, then the parent's messages from `carry_from` on.

    What reached the parent after the summary was begun has a sequence number past what the summary saw,
    so it is carried. Only the present holder of all the leases rotates. Raises `AlreadyContinued` with the
    winner's child when another rotation came first.
    """
    checked_name("a session id", child_id)
    columns = [encode(message) for message in opening]

    def work(tx: Transaction) -> Rotation:
        lock_session(tx, session_id)
        _refuse_second_child(tx, session_id)
        for lease in leases:
            lease.require(tx)
        _check_carry_from(tx, session_id, carry_from)
        parent = require_session(tx, session_id)
        if not tx.queries.end_session(id=session_id, end_reason=END_REASON):
            raise refuse_ended(tx, session_id)
        create_session_row(
            tx, SessionStart(child_id, parent.source, parent.title), session_id, "continuation"
        )
        for row in columns:
            insert_message(tx, child_id, None, row)
        carried = tx.queries.carry_messages(
            parent=session_id, child=child_id, carry_from=carry_from, shift=len(columns)
        )
        tx.queries.move_running_turn(parent=session_id, child=child_id)
        tx.queries.move_waiting_messages(parent=session_id, child=child_id)
        return Rotation(child_id, carried)

    return work


def _refuse_second_child(tx: Transaction, session_id: str) -> None:
    child = tx.queries.continuation(id=session_id)
    if child is not None:
        raise AlreadyContinued(session_id, child)


def _check_carry_from(tx: Transaction, session_id: str, carry_from: int) -> None:
    count = tx.queries.message_count(session_id=session_id)
    if not 0 <= carry_from <= count:
        # Past the end, a message that arrives late would be left behind.
        raise InvalidInput(f"carry_from must be between 0 and {count}, not {carry_from}")
