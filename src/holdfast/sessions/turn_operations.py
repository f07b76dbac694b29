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
    SessionNotFound,
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
from holdfast.sessions.inbox import acknowledge, acknowledge_ahead, waiting_messages
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import (
    insert_message_ahead,
    insert_messages,
    refuse_ended,
    require_session,
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
        turn = _insert_turn(tx, session_id, turn_id, lease)()
        _add_first_message(tx, turn, columns)
        return turn

    return work


@operation
def take_next(
    session_id: str, turn_id: str, inbox_id: int, *, lease: HeldLease | None = None
) -> Work[tuple[TurnRecord, Message]]:
    """Open a turn with a waiting message, as its last edit left it; returns both."""
    checked_name("a turn id", turn_id)
    checked_number("take", inbox_id)

    def work(tx: Transaction) -> tuple[TurnRecord, Message]:
        opened = _insert_turn(tx, session_id, turn_id, lease)
        taken = acknowledge_ahead(tx, inbox_id, turn_id)
        turn, message = opened(), taken().message
        _add_first_message(tx, turn, encode(message))
        return turn, message

    return work


@operation
def resume_turn(turn_id: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Go on with a turn whose process died; the turn counts how often that happens."""

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id, lease)
        tx.queries.ahead.resume_turn(id=turn_id, holder=_holder(lease))

    return work


@operation
def hand_over_turn(turn_id: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Leave an open turn to another process, which goes on with it."""

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id, lease)
        tx.queries.ahead.hand_over_turn(id=turn_id)

    return work


@operation
def append_to_turn(
    turn_id: str, messages: Sequence[Message], *, lease: HeldLease | None = None
) -> Work[list[int]]:
    """Store the next step, wherever a rotation has moved the turn."""
    columns = [encode(message) for message in messages]

    def work(tx: Transaction) -> list[int]:
        session_id = lock_running_turn(tx, turn_id, lease).session_id
        return insert_messages(tx, session_id, turn_id, columns)

    return work


@operation
def join_turn(
    turn_id: str, inbox_id: int, said: Sequence[Message] = (), *, lease: HeldLease | None = None
) -> Work[Message]:
    """Let a waiting message join the running turn, right after what the turn has `said`; returns it."""
    columns = [encode(message) for message in said]

    def work(tx: Transaction) -> Message:
        session_id = lock_running_turn(tx, turn_id, lease).session_id
        taken = acknowledge(tx, inbox_id, turn_id)
        insert_messages(tx, session_id, turn_id, [*columns, encode(taken.message)])
        return taken.message

    return work


@operation
def save_partial(turn_id: str, text: str, *, lease: HeldLease | None = None) -> Work[None]:
    """Keep what has come of the answer so far, for a crash before it is whole."""
    if not is_storable(text):
        raise InvalidInput("an answer must be plain text without NUL or half surrogate pairs")

    def work(tx: Transaction) -> None:
        lock_running_turn(tx, turn_id, lease)
        tx.queries.ahead.save_partial(id=turn_id, partial=text)

    return work


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
    return lambda tx: complete(tx, lock_running_turn(tx, turn_id, lease).session_id)


@operation
def complete_unless_steered(
    turn_id: str, ending: TurnCompletion, *, lease: HeldLease | None = None
) -> Work[TurnRecord | list[InboxMessage]]:
    """Complete the turn, unless messages want to join it: then they are returned, and it goes on."""
    complete = _completion(turn_id, ending)

    def work(tx: Transaction) -> TurnRecord | list[InboxMessage]:
        session_id = lock_running_turn(tx, turn_id, lease).session_id
        return steers(waiting_messages(tx, session_id)) or complete(tx, session_id)

    return work


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
        session_id = lock_running_turn(tx, turn_id, lease).session_id
        insert_messages(tx, session_id, turn_id, columns)
        tx.queries.ahead.touch_session(id=session_id)
        post_turn_end(tx, turn_id, session_id, {"outcome": state, "text": said, "reason": reason})
        return _finish(tx, session_id, turn_id, (state, reason), account)()

    return work


def steers(waiting: Sequence[InboxMessage]) -> list[InboxMessage]:
    """The waiting messages that join the running turn now, up to the first one that is not a steer."""
    return list(takewhile(lambda each: each.mode == "steer", waiting))


def _holder(lease: HeldLease | None) -> str | None:
    return None if lease is None else lease.holder


def _insert_turn(
    tx: Transaction, session_id: str, turn_id: str, lease: HeldLease | None
) -> Callable[[], TurnRecord]:
    """Open a turn in a session, which is locked with it; the function gives the turn."""
    locked = None if tx.alone else tx.queries.ahead.lock_session(id=session_id)
    held = None if lease is None else lease.require_ahead(tx)
    running = tx.queries.running_turn(session_id=session_id)
    if held is not None:
        held()
    if locked is not None and locked() is None:
        raise SessionNotFound(session_id)
    if running is not None:
        # Whoever holds the lease runs no other turn: the one that is open is that of a dead process.
        raise (TurnCutOff if lease else TurnAlreadyRunning)(session_id, running[0])
    inserted = tx.queries.ahead.insert_turn(id=turn_id, session_id=session_id, holder=_holder(lease))

    def turn() -> TurnRecord:
        row = inserted()
        if row is not None:
            return TurnRecord(*row)
        if require_session(tx, session_id).ended is not None:
            raise refuse_ended(tx, session_id)
        raise TurnExists(turn_id)

    return turn


def _add_first_message(tx: Transaction, turn: TurnRecord, first: Columns) -> None:
    added = insert_message_ahead(tx, turn.session_id, turn.id, first)
    tx.queries.ahead.touch_session(id=turn.session_id)
    added()


def _completion(turn_id: str, ending: TurnCompletion) -> Callable[[Transaction, str], TurnRecord]:
    """Completes a turn whose session is locked."""
    names = checked_names("a provider's name", ending.providers)
    columns = None if ending.message is None else encode(ending.message)
    said = "" if ending.message is None else text_of(ending.message)

    def complete(tx: Transaction, session_id: str) -> TurnRecord:
        ahead = tx.queries.ahead
        added = None if columns is None else insert_message_ahead(tx, session_id, turn_id, columns)
        ahead.next_generation(session_id=session_id)
        finished = _finish(tx, session_id, turn_id, ("completed", None), ending.account)
        for name in names:
            ahead.enqueue_delivery(turn_id=turn_id, provider=name)
        post_turn_end(tx, turn_id, session_id, {"outcome": "completed", "text": said})
        if added is not None:
            added()
        turn = finished()
        if ending.ephemeral:
            _skip_commit(tx, turn)
        return turn

    return complete


def _last_words(messages: Sequence[Message]) -> str:
    """The text of the last message of the assistant; empty when there is none."""
    return next((text_of(each) for each in reversed(messages) if each.get("role") == "assistant"), "")


def _skip_commit(tx: Transaction, turn: TurnRecord) -> None:
    """Let a boundary commit pass over a turn, unless there is work from before it."""
    committed = require_session(tx, turn.session_id).committed_generation
    if turn.generation is not None and committed == turn.generation - 1:
        tx.queries.ahead.mark_committed(id=turn.session_id, generation=turn.generation)


def _finish(
    tx: Transaction, session_id: str, turn_id: str, how: tuple[str, str | None], account: TurnAccount
) -> Callable[[], TurnRecord]:
    """End the turn in a state for a reason, with what it used; the function gives it as it is then."""
    state, reason = how
    finished = tx.queries.ahead.finish_turn(id=turn_id, state=state, reason=reason, timeline=account.timeline)
    if account.usage:
        charged = find_turn(tx, account.charged_to) if account.charged_to else None
        if charged is None:
            insert_usage(tx, session_id, turn_id, account.usage)
        else:
            insert_usage(tx, charged.session_id, charged.id, account.usage)

    def turn() -> TurnRecord:
        row = finished()
        if row is None:
            raise TurnNotRunning(turn_id, require_turn(tx, turn_id).state)
        return TurnRecord(*row)

    return turn
