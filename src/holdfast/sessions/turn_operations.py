"""What happens in a turn, as named operations: it opens, takes in messages, grows step by step, and ends.

With a `lease` an operation raises `LeaseLost` once another holder has taken the conversation. `Journal` in
`journal.py` runs these for threads, and reads what is on record of a turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeVar

from holdfast.core.contract import Message
from holdfast.core.errors import (
    InvalidInput,
    Refused,
    TurnAlreadyRunning,
    TurnCutOff,
    TurnExists,
    TurnNotRunning,
)
from holdfast.core.messages import text_of
from holdfast.sessions.chat_posts import post_turn_end
from holdfast.sessions.codec import (
    Columns,
    checked_name,
    checked_names,
    checked_number,
    encode,
    is_storable,
)
from holdfast.sessions.contract import InboxMessage, Transaction, TurnRecord
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.inbox import acknowledge, waiting_messages
from holdfast.sessions.operations import operation
from holdfast.sessions.outbox import enqueue
from holdfast.sessions.transcripts import (
    insert_message,
    lock_session,
    refuse_ended,
    require_session,
    root_of,
)
from holdfast.sessions.turns import find_turn, lock_running_turn, require_turn
from holdfast.sessions.usage import UsageEntry, insert_usage

T = TypeVar("T")
Work = Callable[[Transaction], T]

CUT_SHORT = ("interrupted", "failed")


@operation
def open_turn(
    session_id: str, turn_id: str, message: Message, *, lease: HeldLease | None = None
) -> Work[TurnRecord]:
    """Open a turn with the user's message; a `turn_id` that the store knows is refused (`TurnExists`)."""
    checked_name("a turn id", turn_id)
    columns = encode(message)

    def work(tx: Transaction) -> TurnRecord:
        turn = _insert_turn(tx, session_id, turn_id, lease)
        _add_first_message(tx, turn, columns)
        return turn

    return _fenced(lease, work)


@operation
def take_next(
    session_id: str, turn_id: str, inbox_id: int, *, lease: HeldLease | None = None
) -> Work[tuple[TurnRecord, Message]]:
    """Open a turn with a waiting message, as its last edit left it; returns both."""
    checked_name("a turn id", turn_id)
    checked_number("take", inbox_id)

    def work(tx: Transaction) -> tuple[TurnRecord, Message]:
        turn = _insert_turn(tx, session_id, turn_id, lease)
        message = acknowledge(tx, inbox_id, turn_id).message
        _add_first_message(tx, turn, encode(message))
        return turn, message

    return _fenced(lease, work)


@operation
def resume_turn(turn_id: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Go on with a turn whose process died; the turn counts how often that happens."""

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id)
        tx.queries.resume_turn(id=turn_id, holder=_holder(lease))

    return _fenced(lease, work)


@operation
def hand_over_turn(turn_id: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Leave an open turn to another process, which goes on with it."""

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id)
        tx.queries.hand_over_turn(id=turn_id)

    return _fenced(lease, work)


@operation
def append_to_turn(
    turn_id: str, messages: Sequence[Message], *, lease: HeldLease | None = None
) -> Work[list[int]]:
    """Store the next step, wherever a rotation has moved the turn."""
    columns = [encode(message) for message in messages]

    def work(tx: Transaction) -> list[int]:
        session_id = lock_running_turn(tx, turn_id).session_id
        return [insert_message(tx, session_id, turn_id, row) for row in columns]

    return _fenced(lease, work)


@operation
def join_turn(turn_id: str, inbox_id: int, *, lease: HeldLease | None = None) -> Work[Message]:
    """Let a waiting message join the running turn at this step; returns it."""

    def work(tx: Transaction) -> Message:
        session_id = lock_running_turn(tx, turn_id).session_id
        taken = acknowledge(tx, inbox_id, turn_id)
        insert_message(tx, session_id, turn_id, encode(taken.message))
        return taken.message

    return _fenced(lease, work)


@operation
def save_partial(turn_id: str, text: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Keep what has come of the answer so far, for a crash before it is whole."""
    if not is_storable(text):
        raise InvalidInput("an answer must be plain text without NUL or half surrogate pairs")

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id)
        tx.queries.save_partial(id=turn_id, partial=text)

    return _fenced(lease, work)


@dataclass(frozen=True, slots=True)
class TurnAccount:
    """How a turn spent its time, as JSON for people to look at, and what its requests to models used."""

    timeline: str | None = None
    usage: Sequence[UsageEntry] = ()
    charged_to: str = ""
    """Of a subagent: the turn that it works for, whose usage it is."""


NO_ACCOUNT = TurnAccount()


@dataclass(frozen=True, slots=True)
class TurnCompletion:
    """How a turn is completed: its final message, and what follows from it.

    An `ephemeral` turn leaves no work for a boundary commit behind, unless there is some from before.
    """

    message: Message | None = None
    providers: Sequence[str] = ()
    ephemeral: bool = False
    account: TurnAccount = NO_ACCOUNT


@operation
def complete_turn(
    turn_id: str, ending: TurnCompletion, *, lease: HeldLease | None = None
) -> Work[TurnRecord]:
    """End the turn with its final message; from here on it is owed to each provider."""
    complete = _completion(turn_id, ending)
    return _fenced(lease, lambda tx: complete(tx, lock_running_turn(tx, turn_id).session_id))


@operation
def complete_unless_steered(
    turn_id: str, ending: TurnCompletion, *, lease: HeldLease | None = None
) -> Work[TurnRecord | list[InboxMessage]]:
    """Complete the turn, unless messages want to join it: then they are returned, and it goes on."""
    complete = _completion(turn_id, ending)

    def work(tx: Transaction) -> TurnRecord | list[InboxMessage]:
        session_id = lock_running_turn(tx, turn_id).session_id
        return steers(waiting_messages(tx, session_id)) or complete(tx, session_id)

    return _fenced(lease, work)


@operation
def end_turn(
    turn_id: str,
    state: str,
    reason: str,
    messages: Sequence[Message] = (),
    *,
    account: TurnAccount = NO_ACCOUNT,
    lease: HeldLease | None = None,
) -> Work[TurnRecord]:
    """End the turn as interrupted or failed, keeping its partial work."""
    if state not in CUT_SHORT:
        raise InvalidInput(f"a turn that is not completed ends as {' or '.join(CUT_SHORT)}, not {state!r}")
    if not is_storable(reason):
        raise InvalidInput("a reason must be plain text without NUL or half surrogate pairs")
    columns = [encode(message) for message in messages]
    said = _last_words(messages)

    def work(tx: Transaction) -> TurnRecord:
        session_id = lock_running_turn(tx, turn_id).session_id
        for row in columns:
            insert_message(tx, session_id, turn_id, row)
        tx.queries.touch_session(id=session_id)
        post_turn_end(tx, turn_id, session_id, {"outcome": state, "text": said, "reason": reason})
        return _finish(tx, turn_id, state, reason, None, account)

    return _fenced(lease, work)


def steers(waiting: Sequence[InboxMessage]) -> list[InboxMessage]:
    """The waiting messages that join the running turn now, up to the first one that is not a steer."""
    return list(takewhile(lambda each: each.mode == "steer", waiting))


def _holder(lease: HeldLease | None) -> str | None:
    return None if lease is None else lease.holder


def _fenced(lease: HeldLease | None, work: Work[T]) -> Work[T]:
    if lease is None:
        return work

    def fenced(tx: Transaction) -> T:
        try:
            result = work(tx)
        except Refused:
            # Whoever took the lease may have changed all of it: that is what the caller must hear.
            lease.require(tx)
            raise
        # Last, since the session's row is locked before any other.
        lease.require(tx)
        return result

    return fenced


def _insert_turn(tx: Transaction, session_id: str, turn_id: str, lease: HeldLease | None) -> TurnRecord:
    lock_session(tx, session_id)
    running = tx.queries.running_turn(session_id=session_id)
    if running is not None:
        # Whoever holds the lease runs no other turn: the one that is open is that of a dead process.
        raise (TurnCutOff if lease else TurnAlreadyRunning)(session_id, running[0])
    row = tx.queries.insert_turn(id=turn_id, session_id=session_id, holder=_holder(lease))
    if row is not None:
        return TurnRecord(*row)
    if require_session(tx, session_id).ended is not None:
        raise refuse_ended(tx, session_id)
    raise TurnExists(turn_id)


def _add_first_message(tx: Transaction, turn: TurnRecord, first: Columns) -> None:
    insert_message(tx, turn.session_id, turn.id, first)
    tx.queries.touch_session(id=turn.session_id)


def _completion(turn_id: str, ending: TurnCompletion) -> Callable[[Transaction, str], TurnRecord]:
    """Completes a turn whose session is locked."""
    names = checked_names("a provider's name", ending.providers)
    columns = None if ending.message is None else encode(ending.message)
    said = "" if ending.message is None else text_of(ending.message)

    def complete(tx: Transaction, session_id: str) -> TurnRecord:
        if columns is not None:
            insert_message(tx, session_id, turn_id, columns)
        generation = tx.queries.next_generation(session_id=session_id)
        turn = _finish(tx, turn_id, "completed", None, generation, ending.account)
        if ending.ephemeral and require_session(tx, session_id).committed_generation == generation - 1:
            tx.queries.mark_committed(id=session_id, generation=generation)
        for name in names:
            enqueue(tx, turn_id, name)
        post_turn_end(tx, turn_id, session_id, {"outcome": "completed", "text": said})
        return turn

    return complete


def _last_words(messages: Sequence[Message]) -> str:
    """The text of the last message of the assistant; empty when there is none."""
    return next((text_of(each) for each in reversed(messages) if each.get("role") == "assistant"), "")


def _finish(
    tx: Transaction,
    turn_id: str,
    state: str,
    reason: str | None,
    generation: int | None,
    account: TurnAccount,
) -> TurnRecord:
    row = tx.queries.finish_turn(
        id=turn_id, state=state, reason=reason, generation=generation, timeline=account.timeline
    )
    if row is None:
        raise TurnNotRunning(turn_id, require_turn(tx, turn_id).state)
    turn = TurnRecord(*row)
    if account.usage:
        charged = find_turn(tx, account.charged_to) or turn
        insert_usage(tx, root_of(tx, charged.session_id), charged.id, account.usage)
    return turn
