"""`RunnerStore`: what a runner asks of the store about its conversation, each one named operation.

Two steps share one transaction: taking the lease also reads what waits, and finding nothing also releases the
lease. What a commit means for this process (a lease to renew, a completed turn to mark for memory) happens on
the loop, after the operation.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Concatenate, ParamSpec

from holdfast.core.content import Checked
from holdfast.core.errors import InvalidInput
from holdfast.host.contract import Beginning, HostParts
from holdfast.host.holders import ExpiredLeases, living_holder
from holdfast.host.remote_turns import RemoteProgress, RemoteTurns
from holdfast.host.store_calls import StoreCalls
from holdfast.host.turn_publisher import TurnPublisher
from holdfast.process import off_loop
from holdfast.sessions import InboxMessage, SessionDB
from holdfast.sessions.contract import (
    ClaimedConversation,
    ConversationState,
    Operation,
    ReleasedConversation,
    SessionStart,
)
from holdfast.sessions.conversation_operations import (
    BegunConversation,
    begin_conversation,
    claim_conversation,
    release_conversation,
    release_if_idle,
)
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.leases import session_lease

P = ParamSpec("P")

Held = tuple[HeldLease | None, ConversationState | None]
"""A conversation's lease, and how the conversation stood when it was taken; None while another holds it."""


class RunnerStore:
    """One conversation's operations of the store, on the host's loop."""

    def __init__(
        self, root_id: str, parts: HostParts, holder: str, remote_turns: RemoteTurns, publisher: TurnPublisher
    ) -> None:
        self._root_id = root_id
        self._lease_name = session_lease(root_id)
        self._db = parts.db
        self._pool = parts.pools.store
        self._expired = ExpiredLeases(parts.db, parts.clock)
        self._holder = holder
        self._remote_turns = remote_turns
        self._publisher = publisher
        self._recovers = parts.options.recovers

    async def around(self, *, follow: bool) -> tuple[ConversationState, str | None, RemoteProgress | None]:
        """What waits, who holds the conversation, and what they did, if something waits or `follow`."""
        return await off_loop(self._pool, self._around, follow)

    async def claim(self) -> Held:
        """Take the lease and see how the conversation stands; nothing while another process holds it."""
        claim = await self._db.run(
            self._pool, claim_conversation, self._root_id, self._holder, self._db.lease_seconds
        )
        return keep_claim(self._db, claim)

    async def release_if_idle(self, parked: int) -> ReleasedConversation:
        """See how the conversation stands; when there is nothing to do, the lease is let go.

        Raises `LeaseLost` when another process has taken it.
        """
        lease = self._db.keeper.require(self._lease_name, self._holder)
        completed = self._publisher.unmarked
        return await self._release(
            lease, release_if_idle, lease, parked=parked, recovers=self._recovers, completed=completed
        )

    async def release(self) -> ReleasedConversation:
        """Let the lease go; it says whether it was still held, so that nobody else has stored anything."""
        lease = self._db.keeper.held(self._lease_name, self._holder)
        try:
            found = await self._release(
                lease, release_conversation, lease, completed=self._publisher.unmarked
            )
        except Exception:
            # Whatever kept the store from saying how it stands: a lease that is kept is renewed for ever.
            await off_loop(self._pool, self._db.let_go_of_session, self._root_id, self._holder)
            raise
        if lease is not None:
            self._db.keeper.forget(lease)
        return found

    async def abandon(self, lease: HeldLease) -> None:
        """Let this very lease go; after a deletion it is gone, and another one may be held under its name."""
        if self._db.keeper.forget(lease):
            await off_loop(self._pool, self._db.leases.let_go, lease)

    def _around(self, follow: bool) -> tuple[ConversationState, str | None, RemoteProgress | None]:
        state = self._db.conversations.state(self._root_id)
        if not (state.waiting or follow):
            return state, None, None
        holder = self._holder_now()
        if holder is None and state.open_turn is not None and not self._remote_turns.is_following:
            return state, None, None  # nobody runs that turn: it was cut off, and is offered or taken over
        return state, holder, self._remote_turns.read(self._root_id)

    def _holder_now(self) -> str | None:
        """Who runs the conversation, or may be about to take it up again."""
        holder = living_holder(self._db, self._root_id)
        return holder or self._expired.holder_of(self._root_id)

    async def _release(
        self,
        lease: HeldLease | None,
        operation: Callable[Concatenate[str, P], Operation[ReleasedConversation]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> ReleasedConversation:
        if lease is not None:
            lease.is_leaving = True
        try:
            release = await self._db.run(self._pool, operation, self._root_id, *args, **kwargs)
            if lease is not None and release.released:
                self._db.keeper.forget(lease)
        finally:
            if lease is not None:
                lease.is_leaving = False
        self._publisher.mark(release.completed)
        return release


async def begin(
    call: StoreCalls, db: SessionDB, session: SessionStart, message: Checked, how: Beginning, holder: str
) -> tuple[InboxMessage, Held]:
    """Begin a session with its message, under the lease with which this process goes on."""
    try:
        begun = await call.run(
            begin_conversation,
            session,
            message,
            history=how.history,
            key=how.key,
            holder=holder,
            lease_seconds=db.lease_seconds,
        )
    except InvalidInput:
        # Two began with one key at once: what the loser had begun is undone, and the winner's counts.
        earlier = None if how.key is None else await call(db.inbox.by_key, how.key)
        if earlier is None:
            raise
        begun = BegunConversation(replace(earlier, is_repeat=True), None)
    return begun.message, keep_claim(db, begun.claim)


def keep_claim(db: SessionDB, claim: ClaimedConversation | None) -> Held:
    """Renew from now on what was claimed."""
    return (None, None) if claim is None else (db.keeper.adopt(claim.lease), claim.state)
