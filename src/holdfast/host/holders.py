"""Who holds a conversation: HOST:PID:START:PLACE:ID. A holder that is provably gone holds nothing.

A lease runs out by itself some seconds after its process died. On this machine the death can be seen, so
nobody has to wait: the dead holder's lease is released, guarded by its fencing token.
"""

import logging
import socket

from holdfast.core.ids import new_id
from holdfast.process import is_gone, process_mark
from holdfast.sessions import SessionDB
from holdfast.sessions.leases import session_lease

logger = logging.getLogger(__name__)


def holder_name() -> str:
    """A name for a host in this process; no two have the same."""
    return f"{socket.gethostname()}:{process_mark()}:{new_id()}"


def living_holder(db: SessionDB, session_id: str) -> str | None:
    """Who runs the conversation; one that is provably dead is let go of and does not count."""
    lease = db.leases.current(session_lease(db.root(session_id)))
    if lease is None:
        return None
    machine, _, rest = lease.holder.partition(":")
    if machine != socket.gethostname() or not is_gone(rest.rpartition(":")[0]):
        return lease.holder
    if db.leases.release(lease):
        logger.info("host.dead_holder", extra={"lease": lease.name, "holder": lease.holder})
    return None
