"""`Looks`: what a runner asks of the store about its conversation, each in one visit, on a thread.

Looks that follow each other are one visit: who takes the lease also hears what waits, and who finds that
nothing waits any more lets the lease go as well.
"""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.host.following import Follower, News, end_of_conversation
from holdfast.host.holders import living_holder
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import InboxMessage, Lease


@dataclass(frozen=True, slots=True)
class Look:
    """The conversation in the store: the session in which it goes on, and what waits there."""

    live: str
    waiting: list[InboxMessage]
    open_turn: bool
    """Whether a turn is open there: between two turns of this process, one that was cut off."""

    def first(self, parked: int) -> InboxMessage | None:
        """The message whose turn it is; those up to the inbox id `parked` wait for a person's word."""
        return self.waiting[0] if self.waiting and self.waiting[0].id > parked else None


class Looks:
    """One conversation's visits to the store."""

    def __init__(
        self, root_id: str, db: SessionDB, holder: str, follower: Follower, mark: Callable[[], None]
    ) -> None:
        """`mark` notes for memory what was completed, before the conversation is left."""
        self._root_id = root_id
        self._db = db
        self._holder = holder
        self._follower = follower
        self._mark = mark

    def around(self, *, follow: bool) -> tuple[Look, str | None, News | None]:
        """What waits, who holds the conversation, and what they did, if something waits or `follow`."""
        look = self._look()
        if not (look.waiting or follow):
            return look, None, None
        return look, living_holder(self._db, self._root_id), self._follower.read(self._root_id)

    def hold(self) -> tuple[Lease | None, Look | None]:
        """Take the lease and look; None while another process holds it."""
        lease = self._db.hold_session(self._root_id, self._holder)
        try:
            return lease, None if lease is None else self._look()
        except BaseException:
            # A lease that is kept would be renewed for ever, and nobody could go on.
            self._db.let_go_of_session(self._root_id, self._holder)
            raise

    def look_or_leave(self, parked: int) -> tuple[Look, tuple[str, int] | None]:
        """One look; when it is no message's turn, the conversation is left."""
        self._mark()
        look = self._look()
        return look, None if look.first(parked) else self.leave()

    def leave(self) -> tuple[str, int]:
        """Let the lease go; returns up to where this process has shown the conversation."""
        try:
            self._mark()
            return end_of_conversation(self._db, self._root_id)
        finally:
            self._db.let_go_of_session(self._root_id, self._holder)

    def _look(self) -> Look:
        live = self._db.live_end(self._root_id)
        waiting = self._db.inbox.waiting(live)
        return Look(live, waiting, open_turn=bool(waiting) and self._db.turns.running(live) is not None)
