"""Finds the process that holds a conversation, and whether one whose lease ran out may still go on.

A lease runs out by itself some seconds after its process died. On this machine the death can be seen, so
nobody has to wait: the dead holder's lease is released, guarded by its fencing token. A lease also runs out
when its process stood still (a laptop's sleep, a store locked by another program), and is taken up again.

No process holds the lease of a conversation at rest, but the one that ran its last turns must still commit
them to memory. So each host keeps a `host` lease while it lives, for other machines to look at. On this
machine we look at the process itself; that also works for one that is paused or has no host.
"""

import logging
import math
import threading
from itertools import takewhile

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreFailure
from holdfast.process import is_alive_here, is_provably_gone
from holdfast.sessions import Lease, SessionDB
from holdfast.sessions.leases import lease_name, session_lease

logger = logging.getLogger(__name__)


FORGOTTEN_LEASES = 100
"""After the time of so many leases, one that ran out is forgotten; a holder that lives gets its time anew."""


def host_lease(holder: str) -> str:
    """The name of the lease that a host holds for as long as it lives."""
    return lease_name("host", holder)


def is_used(db: SessionDB, root_id: str, *, by_others_than: str) -> bool:
    """Whether another living process runs the conversation, or ran turns that it has yet to commit."""
    if living_holder(db, root_id) not in (None, by_others_than):
        return True
    users = db.sessions.uncommitted_holders(root_id)
    return any(_lives(db, each) for each in users if each != by_others_than)


def _lives(db: SessionDB, holder: str) -> bool:
    """Whether the holder is still to reach a boundary. One on another machine must say so in time."""
    name = host_lease(holder)
    if db.leases.current(name) is not None:
        return not is_provably_gone(holder)
    return is_alive_here(holder) and not db.leases.was_let_go(name)


def living_holder(db: SessionDB, session_id: str) -> str | None:
    """The holder that runs the conversation; the lease of one that is provably dead is released.

    This very process may have stood still until its lease ran out: it takes the lease up again.
    """
    name = session_lease(db.sessions.root(session_id))
    lease = db.leases.current(name)
    if lease is None:
        return db.keeper.holder_of(name)
    if not is_provably_gone(lease.holder):
        return lease.holder
    if db.leases.release(lease):
        logger.info("host.dead_holder", extra={"lease": lease.name, "holder": lease.holder})
    return None


class ExpiredLeases:
    """Tells how long a lease that ran out is left to its holder, which may only have stood still.

    A holder that is alive on this machine gets the time of one more lease. That time starts when this process
    first sees the lease expired while the store can be written. A holder on another machine gets no extra
    time. When this process was paused itself, or the store was locked, others may have been paused too: they
    get the time of two renewals.
    """

    def __init__(self, db: SessionDB, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()  # guards _seen
        self._seen: dict[str, tuple[int, float]] = {}  # the token that ran out, and when that was first seen
        self._looked: float | None = None
        self._woke = -math.inf

    def note_look(self) -> None:
        """To be called at each look, of which there are several in the time of a lease."""
        now, before = self._clock.now(), self._looked
        self._looked = now
        # A shorter pause lets no lease run out. The time of day goes on while a machine sleeps.
        if before is not None and now - before > self._db.lease_seconds / 2:
            self._woke = self._clock.monotonic()
            with self._lock:
                self._seen.clear()

    def holder_of(self, session_id: str) -> str | None:
        """The former holder, which may still take its expired lease again; None otherwise. On a thread."""
        lease = self._db.leases.last(session_lease(self._db.sessions.root(session_id)))
        return lease.holder if lease is not None and self._may_be_taken_up(lease) else None

    def _may_be_taken_up(self, lease: Lease) -> bool:
        if is_provably_gone(lease.holder):
            return False
        if self._seen_since(lease) is None and not self._can_be_renewed():
            return True  # the time it is given begins when it can be
        since = self._note_seen(lease)
        now = self._clock.monotonic()
        if is_alive_here(lease.holder):
            return now - since < self._db.lease_seconds
        return now - self._woke < self._db.lease_seconds / 2

    def _seen_since(self, lease: Lease) -> float | None:
        token, since = self._seen.get(lease.name, (0, 0.0))
        return since if token == lease.token else None

    def _note_seen(self, lease: Lease) -> float:
        """Another look may have seen it while this one waited for the store: the first one counts."""
        with self._lock:
            since = self._seen_since(lease)
            if since is None:
                since = self._clock.monotonic()
                self._forget_before(since - FORGOTTEN_LEASES * self._db.lease_seconds)
                self._seen.pop(lease.name, None)  # the newest come last
                self._seen[lease.name] = lease.token, since
            return since

    def _forget_before(self, time: float) -> None:
        """Called with the lock."""
        for name in list(takewhile(lambda each: self._seen[each][1] < time, self._seen)):
            del self._seen[name]

    def _can_be_renewed(self) -> bool:
        """Whether leases can be written. A store that was locked until now let every holder stand still."""
        began = self._clock.monotonic()
        try:
            self._db.leases.require_writable()
        except StoreFailure:
            self._woke = self._clock.monotonic()
            return False
        if self._clock.monotonic() - began > self._db.lease_seconds / 4:
            self._woke = self._clock.monotonic()
        return True
