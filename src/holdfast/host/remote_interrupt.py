"""How an interrupt reaches a turn that another process runs: through the store.

With a text it is a message of the inbox, addressed to the turn. Without one it is a lease that is named for
the turn, so it is addressed as well, touches no later turn (I4) and runs out by itself.
"""

from holdfast.host.holders import living_holder
from holdfast.sessions import SessionDB
from holdfast.sessions.leases import lease_name

STOP_SECONDS = 60.0


def request_interrupt(db: SessionDB, session_id: str, holder: str, turn_id: str | None = None) -> bool:
    """Ask the process that runs the session's turn to stop it; False when no turn runs, or another one."""
    turn = db.turns.running(db.sessions.live_end(session_id))
    if turn is None or turn_id not in (None, turn.id) or living_holder(db, session_id) is None:
        return False
    db.leases.acquire(lease_name("stop", turn.id), holder, ttl_seconds=STOP_SECONDS)
    return True
