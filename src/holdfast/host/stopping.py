"""How an interrupt reaches a turn that another process runs: through what the two share, the store.

With a text it is a message of the inbox, addressed to the turn. Without one it is a lease that is named for
the turn, so it is addressed as well, touches no later turn (I4) and runs out by itself.
"""

from collections.abc import Collection

from holdfast.host.holders import living_holder
from holdfast.sessions import SessionDB
from holdfast.sessions.leases import lease_name

STOP_SECONDS = 60.0


def ask_to_stop(db: SessionDB, session_id: str, holder: str) -> bool:
    """Ask whoever runs the session's turn to stop it; False when nobody runs one."""
    turn = db.turns.running(db.live_end(session_id))
    if turn is None or living_holder(db, session_id) is None:
        return False
    db.leases.acquire(lease_name("stop", turn.id), holder, ttl_seconds=STOP_SECONDS)
    return True


def asked_to_stop(db: SessionDB, turn_ids: Collection[str]) -> set[str]:
    """Those of these running turns that were interrupted through the store."""
    stops, interrupted = db.leases.in_force("stop"), db.inbox.interrupted()
    return {turn for turn in turn_ids if turn in interrupted or lease_name("stop", turn) in stops}
