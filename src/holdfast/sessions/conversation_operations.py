"""What a host asks of the store about a whole conversation, as named operations.

It begins with a message, takes in more of them, is claimed by the process that runs it, and is let go when
nothing is left to do. Each operation also answers what its caller would ask next: how it stands now.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from holdfast.core.content import Checked
from holdfast.core.contract import Message
from holdfast.core.errors import SessionNotFound
from holdfast.sessions.codec import checked_name, checked_seconds
from holdfast.sessions.contract import (
    ClaimedConversation,
    ConversationState,
    InboxMessage,
    Lease,
    Mode,
    ReleasedConversation,
    Session,
    SessionStart,
    Transaction,
)
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.inbox import EncodedMessage, checked_columns, message_by_key, waiting_messages
from holdfast.sessions.leases import session_lease
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import (
    check_start,
    insert_messages,
    insert_session_row,
    require_scope,
)


@dataclass(frozen=True, slots=True)
class BegunConversation:
    """The message that a conversation began with, and the conversation's lease if it was taken with it."""

    message: InboxMessage
    claim: ClaimedConversation | None


@operation
def begin_conversation(
    session: SessionStart,
    message: Message | Checked,
    *,
    history: Sequence[Message | Checked] = (),
    key: str | None = None,
    holder: str,
    lease_seconds: float,
) -> Callable[[Transaction], BegunConversation]:
    """Begin a session with what was said elsewhere and a message that waits in it, under its lease.

    With a `key` that was used before nothing is begun, and that message is returned.
    """
    check_start(session)
    posted = EncodedMessage.checked(message, key=key)
    said = [checked_columns(each) for each in history]
    ttl_us = checked_seconds("a lease", lease_seconds)

    def work(tx: Transaction) -> BegunConversation:
        earlier = None if key is None else message_by_key(tx, key)
        if earlier is not None:
            require_scope(tx, earlier.session_id, session.scope)
            return BegunConversation(replace(earlier, is_repeat=True), None)
        started = insert_session_row(tx, session)
        lease = tx.queries.ahead.acquire_lease(name=session_lease(session.id), holder=holder, ttl_us=ttl_us)
        insert_messages(tx, session.id, None, said)
        stored = posted.put_into_new(tx, session.id)
        state = ConversationState(session.id, (stored,), None, len(said), started, session.scope)
        taken = lease()
        claim = None if taken is None else ClaimedConversation(Lease(*taken), state)
        return BegunConversation(stored, claim)

    return work


@operation
def send_message(
    session_id: str, message: Message | Checked, mode: Mode, key: str | None = None
) -> Callable[[Transaction], InboxMessage]:
    """Let a message wait in its conversation; an interrupt is addressed to the turn that runs there."""
    posted = EncodedMessage.checked(message, mode, key=key)
    return lambda tx: posted.put(tx, session_id, to_running_turn=mode == "interrupt")


@operation
def claim_conversation(
    root_id: str, holder: str, lease_seconds: float
) -> Callable[[Transaction], ClaimedConversation | None]:
    """Take the conversation's lease and see how it stands; None while another holds it."""
    checked_name("a lease's holder", holder)
    ttl_us = checked_seconds("a lease", lease_seconds)
    return lambda tx: _claim(tx, root_id, holder, ttl_us)


@operation
def release_if_idle(
    root_id: str,
    lease: HeldLease,
    *,
    parked: int,
    recovers: bool,
    completed: Sequence[str] = (),
) -> Callable[[Transaction], ReleasedConversation]:
    """See how the conversation stands and, when it is idle (`ConversationState.is_idle`), let its lease go.

    The sessions of `completed` are returned as they are now. Raises `LeaseLost` when another has taken it.
    """

    def work(tx: Transaction) -> ReleasedConversation:
        held = lease.require_ahead(tx)
        found = _sessions(tx, completed)
        state = conversation_state(tx, root_id)
        held()
        idle = state.is_idle(parked=parked, recovers=recovers)
        if idle:
            lease.release_required(tx)
        return ReleasedConversation(state, idle, found())

    return work


@operation
def release_conversation(
    root_id: str, lease: HeldLease | None, *, completed: Sequence[str] = ()
) -> Callable[[Transaction], ReleasedConversation]:
    """See how the conversation stands, and let its lease go in any case; None is one that was lost."""

    def work(tx: Transaction) -> ReleasedConversation:
        found = _sessions(tx, completed)
        state = conversation_state(tx, root_id)
        return ReleasedConversation(state, lease is not None and lease.release(tx), found())

    return work


def conversation_state(tx: Transaction, session_id: str) -> ConversationState:
    """Where a conversation goes on, what waits there, which turn is open and how far it got."""
    found = tx.queries.ahead.live_session(id=session_id)
    # Most conversations go on where they began.
    waiting = waiting_messages(tx, session_id)
    row = found()
    if row is None:
        raise SessionNotFound(session_id)
    live, started, scope, tool_profile, open_turn, count = row
    if live != session_id:
        waiting = waiting_messages(tx, live)
    return ConversationState(live, tuple(waiting), open_turn, count, started, scope, tool_profile or "")


def _claim(tx: Transaction, root_id: str, holder: str, ttl_us: int) -> ClaimedConversation | None:
    lease = tx.queries.ahead.acquire_lease(name=session_lease(root_id), holder=holder, ttl_us=ttl_us)
    state = conversation_state(tx, root_id)
    taken = lease()
    return None if taken is None else ClaimedConversation(Lease(*taken), state)


def _sessions(tx: Transaction, session_ids: Sequence[str]) -> Callable[[], tuple[Session, ...]]:
    asked = [tx.queries.ahead.get_session(id=each) for each in session_ids]
    return lambda: tuple(Session(*row) for each in asked if (row := each()) is not None)
