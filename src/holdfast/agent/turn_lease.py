"""`TurnLease`: the session's lease for an agent that no host gave one, taken for the time of one turn.

So other processes see that a turn runs in the session, and leave it alone. A subagent takes no lease: it
works under the lease of the conversation that it serves.
"""

import logging

from holdfast.agent.cached_session import CachedSession
from holdfast.core.errors import HoldfastError, SessionElsewhere, TurnAlreadyRunning
from holdfast.process import DaemonPool, holder_name, is_provably_gone, off_loop
from holdfast.process.cancellation import finish_despite_cancel
from holdfast.sessions import SessionDB
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.leases import session_lease

logger = logging.getLogger(__name__)

MEMORY = ":memory:"


class TurnLease:
    """The lease that one agent takes by itself. On the agent's loop."""

    def __init__(self, db: SessionDB, pool: DaemonPool, session: CachedSession) -> None:
        self._db = db
        self._pool = pool
        self._session = session
        self._holder = holder_name()
        self._held: HeldLease | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    async def take(self, *, new_turn: bool) -> HeldLease | None:
        """The lease, or None where none is needed. A new turn is refused while another holds the session.

        A turn that was cut off is continued in any case: the program has said that no process runs it.
        """
        if self._db.location != MEMORY:  # no other process can see that store
            self._held = await finish_despite_cancel(off_loop(self._pool, self._take, new_turn))
        return self._held

    async def release(self) -> None:
        """Between turns the session is free; does nothing when it is not held."""
        lease, self._held = self._held, None
        if lease is None:
            return
        try:
            await finish_despite_cancel(
                off_loop(self._pool, self._db.keeper.release, lease.name, lease.holder)
            )
        except Exception as cause:
            # What became of the turn stands, whatever a store raises here; the lease runs out by itself.
            self._db.keeper.forget(lease)
            logger.warning(
                "agent.lease_not_released",
                exc_info=not isinstance(cause, HoldfastError),
                extra={"lease": lease.name, "cause": repr(cause)},
            )

    def _take(self, new_turn: bool) -> HeldLease | None:
        self._session.ensure()
        root = self._db.get_session(self._db.sessions.root(self._session.id))
        if root is None or root.relation == "delegate":
            return None
        name = session_lease(root.id)
        current = self._db.leases.current(name)
        if current is not None and is_provably_gone(current.holder):
            self._db.leases.release(current)
        lease = self._db.keeper.acquire(name, self._holder)
        if lease is None and new_turn:
            running = self._db.turns.running(self._db.sessions.live_end(root.id))
            if running is not None:
                raise TurnAlreadyRunning(running.session_id, running.id)
            raise SessionElsewhere(self._session.id)
        return lease
