"""One look at a conversation: where it goes on, what waits there, which turn is open, how far it got."""

from holdfast.sessions.contract import Look, Transaction
from holdfast.sessions.inbox import waiting_messages
from holdfast.sessions.transcripts import live_end


def look(tx: Transaction, session_id: str) -> Look:
    """From any of its sessions, as of one moment."""
    live = live_end(tx, session_id)
    waiting = tuple(waiting_messages(tx, live))
    running = tx.queries.running_turn(tx.connection, session_id=live)
    count = int(tx.queries.message_count(tx.connection, session_id=live))
    return Look(live, waiting, None if running is None else running[0], count)
