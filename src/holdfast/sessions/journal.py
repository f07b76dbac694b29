"""The turn journal: every step of a turn is on disk before the next begins.

A turn is opened together with the user's message, grows by assistant and tool messages, and ends
completed, interrupted or failed. Completion stores the answer, the state, the session's generation and
what is owed to each memory provider in one transaction.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, TurnAlreadyRunning, TurnExists, TurnNotFound, TurnNotRunning
from holdfast.core.ids import new_id
from holdfast.sessions.codec import (
    Columns,
    checked_name,
    checked_names,
    checked_number,
    decode_all,
    encode,
    is_storable,
    to_json,
)
from holdfast.sessions.contract import Engine, Lease, Transaction, Turn, TurnRecord
from holdfast.sessions.inbox import acknowledge, lock_live_end
from holdfast.sessions.leases import require_lease
from holdfast.sessions.outbox import deliveries_of, enqueue
from holdfast.sessions.transcripts import (
    insert_message,
    lock_session,
    refuse_ended,
    require_session,
    root_of,
    stored,
)
from holdfast.sessions.turns import find_turn, lock_running_turn, require_turn

T = TypeVar("T")

LIBRARY = "library"


class Journal:
    """Turns, step by step."""

    def __init__(self, engine: Engine, lease: Lease | None = None) -> None:
        self._engine = engine
        self._lease = lease

    def under(self, lease: Lease) -> "Journal":
        """The journal of one holder: each step raises `LeaseLost` once this very lease is not in force."""
        return Journal(self._engine, lease)

    def open(
        self,
        session_id: str,
        message: Message | None = None,
        *,
        take: int | None = None,
        turn_id: str | None = None,
    ) -> Turn:
        """Open a turn with the user's message: the given one, or the inbox message `take`.

        The turn's row, its first message and the taking are one transaction. A `turn_id` that some turn of
        the store already has is refused with `TurnExists`.
        """
        if (message is None) == (take is None):
            raise InvalidInput("a turn opens with a message or takes one from the inbox, not both")
        fresh = checked_name("a turn id", turn_id) if turn_id is not None else new_id()
        first = encode(message) if take is None else checked_number("take", take)
        return self._write(lambda tx: _open(tx, session_id, fresh, first))

    def join(self, turn_id: str, take: int) -> Message:
        """Let a waiting message join the running turn at this step; returns it."""

        def work(tx: Transaction) -> Message:
            session_id = lock_running_turn(tx, turn_id).session_id
            taken = acknowledge(tx, take, turn_id)
            insert_message(tx, session_id, turn_id, encode(taken.message))
            return taken.message

        return self._write(work)

    def append(self, turn_id: str, messages: Sequence[Message]) -> list[int]:
        """Store the next step, wherever a rotation has moved the turn."""
        columns = [encode(message) for message in messages]

        def work(tx: Transaction) -> list[int]:
            session_id = lock_running_turn(tx, turn_id).session_id
            return [insert_message(tx, session_id, turn_id, row) for row in columns]

        return self._write(work)

    def save_partial(self, turn_id: str, text: str) -> None:
        """Keep what has come of the answer so far, for a crash before it is whole."""
        if not is_storable(text):
            raise InvalidInput("an answer must be plain text without NUL or half surrogate pairs")

        def work(tx: Transaction) -> None:
            lock_running_turn(tx, turn_id)
            tx.queries.save_partial(tx.connection, id=turn_id, partial=text)

        self._write(work)

    def partial(self, turn_id: str) -> str:
        """What had come of an answer that never became a message; empty when there is none."""
        return self._engine.read(lambda tx: tx.queries.get_partial(tx.connection, id=turn_id) or "")

    def complete(
        self,
        turn_id: str,
        message: Message | None = None,
        *,
        providers: Sequence[str] = (),
        ephemeral: bool = False,
        account: str | None = None,
    ) -> Turn:
        """End the turn with its final message; from here on it is owed to each provider.

        An `ephemeral` turn leaves no work for a boundary commit behind, unless there is some from before.
        `account` is what the turn's end says of its way, as JSON for people to look at.
        """
        names = checked_names("a provider's name", providers)
        columns = None if message is None else encode(message)

        def work(tx: Transaction) -> Turn:
            session_id = lock_running_turn(tx, turn_id).session_id
            if columns is not None:
                insert_message(tx, session_id, turn_id, columns)
            generation = tx.queries.next_generation(tx.connection, session_id=session_id)
            turn = _finish(tx, turn_id, "completed", None, generation, account)
            if ephemeral and require_session(tx, session_id).committed_generation == generation - 1:
                tx.queries.mark_committed(tx.connection, id=session_id, generation=generation)
            for name in names:
                enqueue(tx, turn_id, name)
            return turn

        return self._write(work)

    def record(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        providers: Sequence[str] = (),
        handover: Sequence[Message] | None = None,
        source: str = LIBRARY,
        then: Callable[[], object] = lambda: None,
    ) -> str:
        """Store a turn that ran elsewhere, completed and owed to each provider; returns its id.

        A session that the store doesn't know is created. `handover` is what providers get as the turn's
        messages when it is more than `messages`. On disk when this returns, unless the store is in memory;
        `then` is called once it is stored.
        """
        checked_name("a session id", session_id)
        checked_name("a session's source", source)
        names = checked_names("a provider's name", providers)
        columns = [encode(message) for message in messages]
        handed = None if handover is None else to_json(list(handover))
        turn = _Recorded(new_id(), session_id, source, columns, names, handed)
        self._engine.write_later(turn.store, then)
        return turn.id

    def record_exchange(
        self,
        session_id: str,
        said: tuple[str, str],
        *,
        providers: Sequence[str],
        handover: Sequence[Message] | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """`record` for a question and its answer, whose caller is in a hurry.

        Two texts are never refused, so on a store in memory they are taken apart behind this call. The names
        of providers are taken as they are.
        """
        checked_name("a session id", session_id)
        handed = None if handover is None else to_json(list(handover))

        def work(tx: Transaction) -> None:
            spoken = zip(("user", "assistant"), said, strict=True)
            columns = [encode({"role": role, "content": text}) for role, text in spoken]
            _Recorded(new_id(), session_id, LIBRARY, columns, providers, handed).store(tx)

        self._engine.write_later(work, then)

    def interrupt(
        self, turn_id: str, reason: str, messages: Sequence[Message] = (), *, account: str | None = None
    ) -> Turn:
        """End the turn as interrupted, keeping its partial work."""
        return self._end(turn_id, "interrupted", reason, messages, account)

    def fail(
        self, turn_id: str, reason: str, messages: Sequence[Message] = (), *, account: str | None = None
    ) -> Turn:
        """End the turn as failed, keeping its partial work."""
        return self._end(turn_id, "failed", reason, messages, account)

    def get(self, turn_id: str) -> Turn | None:
        return self._engine.read(lambda tx: find_turn(tx, turn_id))

    def running(self, session_id: str) -> Turn | None:
        """The one turn that runs in this session, or was running when its process died."""

        def work(tx: Transaction) -> Turn | None:
            row = tx.queries.running_turn(tx.connection, session_id=session_id)
            return None if row is None else Turn(*row)

        return self._engine.read(work)

    def unfinished(self) -> list[Turn]:
        """Every turn that has not ended; after a crash, the ones to resume, retry or drop."""
        return self._engine.read(
            lambda tx: [Turn(*row) for row in tx.queries.unfinished_turns(tx.connection)]
        )

    def messages(self, turn_id: str) -> list[Message]:
        """All that was said in a turn, also across a rotation, each message once."""
        return self._engine.read(
            lambda tx: decode_all(tx.queries.turn_messages(tx.connection, turn_id=turn_id))
        )

    def look(self, turn_id: str) -> TurnRecord:
        """All that is on record of a turn, as of one moment."""

        def work(tx: Transaction) -> TurnRecord:
            turn = require_turn(tx, turn_id)
            account = tx.queries.turn_account(tx.connection, id=turn_id)
            return TurnRecord(
                turn,
                root_of(tx, turn.session_id),
                tuple(stored(row) for row in tx.queries.turn_steps(tx.connection, turn_id=turn_id)),
                deliveries_of(tx, turn_id),
                None if account is None else json.loads(account),
            )

        return self._engine.read(work)

    def handed_over(self, turn_id: str) -> tuple[list[Message], list[Message], int]:
        """A completed turn as providers get it: its own messages, what was handed over, and when."""

        def work(tx: Transaction) -> tuple[list[Message], list[Message], int]:
            row = tx.queries.turn_handover(tx.connection, id=turn_id)
            if row is None:
                raise TurnNotFound(turn_id)
            own = decode_all(tx.queries.turn_messages(tx.connection, turn_id=turn_id))
            return own, own if row[0] is None else json.loads(row[0]), row[1]

        return self._engine.read(work)

    def _write(self, work: Callable[[Transaction], T]) -> T:
        lease = self._lease
        if lease is None:
            return self._engine.write(work)

        def fenced(tx: Transaction) -> T:
            result = work(tx)
            # Last, since the session's row is locked before any other.
            require_lease(tx, lease)
            return result

        return self._engine.write(fenced)

    def _end(
        self, turn_id: str, state: str, reason: str, messages: Sequence[Message], account: str | None
    ) -> Turn:
        if not is_storable(reason):
            raise InvalidInput("a reason must be plain text without NUL or half surrogate pairs")
        columns = [encode(message) for message in messages]

        def work(tx: Transaction) -> Turn:
            session_id = lock_running_turn(tx, turn_id).session_id
            for row in columns:
                insert_message(tx, session_id, turn_id, row)
            tx.queries.touch_session(tx.connection, id=session_id)
            return _finish(tx, turn_id, state, reason, None, account)

        return self._write(work)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A turn that ran elsewhere, ready to be stored."""

    id: str
    session_id: str
    source: str
    columns: Sequence[Columns]
    providers: Sequence[str]
    handover: str | None

    def store(self, tx: Transaction) -> None:
        """The completed turn, its messages, and what is owed for it."""
        end = _live_end_or_new(tx, self.session_id, self.source)
        generation = tx.queries.next_generation(tx.connection, session_id=end)
        tx.queries.insert_completed_turn(
            tx.connection, id=self.id, session_id=end, generation=generation, handover=self.handover
        )
        for role, content, extra in self.columns:
            tx.queries.insert_recorded_message(
                tx.connection, session_id=end, turn_id=self.id, role=role, content=content, extra=extra
            )
        for name in self.providers:
            enqueue(tx, self.id, name)


def _live_end_or_new(tx: Transaction, session_id: str, source: str) -> str:
    """The locked live end of the conversation, which begins here if the store doesn't know it."""
    tx.queries.insert_session(
        tx.connection, id=session_id, parent=None, relation=None, source=source, title=None
    )
    end = lock_live_end(tx, session_id)
    if require_session(tx, end).ended is not None:
        raise refuse_ended(tx, end)
    return end


def _open(tx: Transaction, session_id: str, turn_id: str, first: Columns | int) -> Turn:
    lock_session(tx, session_id)
    running = tx.queries.running_turn(tx.connection, session_id=session_id)
    if running is not None:
        raise TurnAlreadyRunning(session_id, running[0])
    if not tx.queries.insert_turn(tx.connection, id=turn_id, session_id=session_id):
        if require_session(tx, session_id).ended is not None:
            raise refuse_ended(tx, session_id)
        raise TurnExists(turn_id)
    if isinstance(first, int):
        first = encode(acknowledge(tx, first, turn_id).message)
    insert_message(tx, session_id, turn_id, first)
    tx.queries.touch_session(tx.connection, id=session_id)
    return require_turn(tx, turn_id)


def _finish(
    tx: Transaction,
    turn_id: str,
    state: str,
    reason: str | None,
    generation: int | None,
    account: str | None,
) -> Turn:
    finished = tx.queries.finish_turn(
        tx.connection, id=turn_id, state=state, reason=reason, generation=generation, account=account
    )
    turn = require_turn(tx, turn_id)
    if not finished:
        raise TurnNotRunning(turn_id, turn.state)
    return turn
