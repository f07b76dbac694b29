"""`Looks`: what a runner asks of the store about its conversation, each in one visit.

Looks that follow each other are one visit: who takes the lease also hears what waits, and who finds that
nothing waits any more lets the lease go as well.
"""

from collections.abc import Callable
from functools import partial

from holdfast.host.following import Follower, News
from holdfast.host.holders import living_holder
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Lease, Look
from holdfast.sessions.leases import session_lease

Held = tuple[Lease | None, Look | None]
Left = tuple[Look, Lease | None]
"""What a look found, and the lease if it was let go."""


class Looks:
    """One conversation's visits to the store, on the host's loop."""

    def __init__(
        self,
        root_id: str,
        db: SessionDB,
        pool: DaemonPool,
        holder: str,
        follower: Follower,
        mark: Callable[[], None],
    ) -> None:
        """`mark` notes for memory what was completed, before the conversation is left; on any thread."""
        self._root_id = root_id
        self._db = db
        self._pool = pool
        self._holder = holder
        self._follower = follower
        self._mark = mark

    async def around(self, *, follow: bool) -> tuple[Look, str | None, News | None]:
        """What waits, who holds the conversation, and what they did, if something waits or `follow`."""
        return await off_loop(self._pool, self._around, follow)

    async def hold(self) -> Held:
        """Take the lease and look; None while another process holds it."""
        return await self._db.visit(
            self._pool, partial(take_hold, self._db, self._root_id, self._holder), partial(keep, self._db)
        )

    async def look_or_leave(self, parked: int) -> tuple[Look, bool]:
        """One look; when it is no message's turn, the conversation is left."""
        look, lease = await self._leaving(lambda look: look.first(parked) is None)
        return look, lease is not None

    async def leave(self) -> Look:
        """Let the lease go; returns up to where this process has shown the conversation."""
        try:
            return (await self._leaving(lambda _: True))[0]
        except Exception:
            # Without the look, but not with the lease: it would be renewed for ever.
            await off_loop(self._pool, self._db.let_go_of_session, self._root_id, self._holder)
            raise

    def _around(self, follow: bool) -> tuple[Look, str | None, News | None]:
        look = self._db.look(self._root_id)
        if not (look.waiting or follow):
            return look, None, None
        return look, living_holder(self._db, self._root_id), self._follower.read(self._root_id)

    async def _leaving(self, may: Callable[[Look], bool]) -> Left:
        def work() -> Left:
            self._mark()
            look = self._db.look(self._root_id)
            lease = self._db.keeper.held(session_lease(self._root_id), self._holder) if may(look) else None
            if lease is not None:
                self._db.leases.release(lease)
            return look, lease

        def forget(left: Left) -> None:
            if left[1] is not None:
                self._db.keeper.forget(left[1])

        return await self._db.visit(self._pool, work, forget)


def take_hold(db: SessionDB, root_id: str, holder: str) -> Held:
    """Take a conversation's lease and look, as a part of a visit; `keep` is told of it."""
    lease = db.leases.acquire(session_lease(root_id), holder, ttl_seconds=db.lease_seconds)
    if lease is None:
        return None, None
    try:
        return lease, db.look(root_id)
    except BaseException:
        # Kept, it would stand in everybody's way until it runs out.
        db.leases.release(lease)
        raise


def keep(db: SessionDB, held: Held) -> None:
    """Renew from now on what was taken."""
    if held[0] is not None:
        db.keeper.keep(held[0])
