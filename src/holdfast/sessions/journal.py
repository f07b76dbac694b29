"""`Journal` (`SessionDB.turns`): runs the turn operations for threads, and reads what is stored of a turn.

A turn is opened together with the user's message, grows by assistant and tool messages, and ends
completed, interrupted or failed. Completion stores the answer, the state, the session's generation and
what is owed to each memory provider in one transaction.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, TurnNotFound
from holdfast.core.ids import new_id
from holdfast.sessions.codec import (
    Columns,
    checked_name,
    checked_names,
    checked_number,
    decode_all,
    encode,
    to_json,
)
from holdfast.sessions.contract import (
    OWNER,
    SECOND,
    Engine,
    Operation,
    ProviderTurn,
    Transaction,
    TurnHistory,
    TurnRecord,
)
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.inbox import lock_live_end
from holdfast.sessions.outbox import deliveries_of, enqueue
from holdfast.sessions.transcripts import refuse_ended, require_session, root_of, stored
from holdfast.sessions.turn_operations import (
    TurnAccount,
    TurnCompletion,
    append_to_turn,
    complete_turn,
    end_turn,
    join_turn,
    open_turn,
    resume_turn,
    save_partial,
    take_next,
)
from holdfast.sessions.turns import find_turn, require_turn

LIBRARY = "library"


class Journal:
    """Turns, step by step."""

    def __init__(self, engine: Engine, lease: HeldLease | None = None) -> None:
        self._engine = engine
        self._lease = lease

    def under(self, lease: HeldLease) -> "Journal":
        """The journal of one holder: each step raises `LeaseLost` once another has taken the lease."""
        return Journal(self._engine, lease)

    def open(
        self,
        session_id: str,
        message: Message | None = None,
        *,
        take: int | None = None,
        turn_id: str | None = None,
    ) -> TurnRecord:
        """Open a turn with the user's message: the given one, or the inbox message `take`.

        The turn's row, its first message and the taking are one transaction. A `turn_id` that some turn of
        the store already has is refused with `TurnExists`.
        """
        if (message is None) == (take is None):
            raise InvalidInput("a turn opens with a message or takes one from the inbox, not both")
        fresh = new_id() if turn_id is None else turn_id
        if message is not None:
            return self._engine.write(open_turn(session_id, fresh, message, lease=self._lease))
        taken = checked_number("take", take)
        return self._engine.write(take_next(session_id, fresh, taken, lease=self._lease))[0]

    def resume(self, turn_id: str) -> None:
        """Go on with a turn whose process died; the turn counts how often that happens."""
        self._engine.write(resume_turn(turn_id, lease=self._lease))

    def holder(self, turn_id: str) -> str | None:
        """Who ran the turn last, or runs it; None when no lease was held for it."""
        found = self._engine.read_once(lambda tx: tx.queries.turn_holder(id=turn_id))
        return None if found is None else str(found)

    def resume_count(self, turn_id: str) -> int:
        """How often the turn was gone on with after its process died."""
        return self._engine.read_once(lambda tx: int(tx.queries.turn_resume_count(id=turn_id) or 0))

    def join(self, turn_id: str, take: int) -> Message:
        """Let a waiting message join the running turn at this step; returns it."""
        return self._engine.write(join_turn(turn_id, take, lease=self._lease))

    def append(self, turn_id: str, messages: Sequence[Message]) -> list[int]:
        """Store the next step, wherever a rotation has moved the turn."""
        return self._engine.write(append_to_turn(turn_id, messages, lease=self._lease))

    def save_partial(self, turn_id: str, text: str) -> None:
        """Keep what has come of the answer so far, for a crash before it is whole."""
        self._engine.write(save_partial(turn_id, text, lease=self._lease))

    def partial(self, turn_id: str) -> str:
        """What had come of an answer that never became a message; empty when there is none."""
        return self._engine.read_once(lambda tx: tx.queries.get_partial(id=turn_id) or "")

    def complete(
        self,
        turn_id: str,
        message: Message | None = None,
        *,
        providers: Sequence[str] = (),
        ephemeral: bool = False,
        timeline: str | None = None,
    ) -> TurnRecord:
        """End the turn with its final message, which is then owed to each provider; see `TurnCompletion`."""
        ending = TurnCompletion(message, providers, ephemeral, TurnAccount(timeline))
        return self._engine.write(complete_turn(turn_id, ending, lease=self._lease))

    def record(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        providers: Sequence[str] = (),
        provider_messages: Sequence[Message] | None = None,
        source: str = LIBRARY,
        then: Callable[[], object] = lambda: None,
    ) -> str:
        """Store a turn that ran elsewhere, completed and owed to each provider; returns its id.

        A session that the store doesn't know is created. `provider_messages` is what providers get as the
        turn's messages when it is more than `messages`. On disk when this returns, unless the store is in
        memory; `then` is called once it is stored.
        """
        checked_name("a session id", session_id)
        checked_name("a session's source", source)
        names = checked_names("a provider's name", providers)
        columns = [encode(message) for message in messages]
        handed = None if provider_messages is None else to_json(list(provider_messages))
        turn = _Recorded(new_id(), session_id, source, columns, names, handed)
        self._engine.write_later(Operation("record_turn", turn.store), then)
        return turn.id

    def record_exchange(
        self,
        session_id: str,
        said: tuple[str, str],
        *,
        providers: Sequence[str],
        provider_messages: Sequence[Message] | None = None,
        then: Callable[[], object] = lambda: None,
    ) -> None:
        """`record` for a question and its answer, whose caller is in a hurry.

        Two texts are never refused, so on a store in memory they are taken apart behind this call. The names
        of providers are taken as they are.
        """
        checked_name("a session id", session_id)
        handed = None if provider_messages is None else to_json(list(provider_messages))

        def work(tx: Transaction) -> None:
            spoken = zip(("user", "assistant"), said, strict=True)
            columns = [encode({"role": role, "content": text}) for role, text in spoken]
            _Recorded(new_id(), session_id, LIBRARY, columns, providers, handed).store(tx)

        self._engine.write_later(Operation("record_turn", work), then)

    def interrupt(
        self, turn_id: str, reason: str, messages: Sequence[Message] = (), *, timeline: str | None = None
    ) -> TurnRecord:
        """End the turn as interrupted, keeping its partial work."""
        return self._engine.write(
            end_turn(
                turn_id, "interrupted", reason, messages, account=TurnAccount(timeline), lease=self._lease
            )
        )

    def fail(
        self, turn_id: str, reason: str, messages: Sequence[Message] = (), *, timeline: str | None = None
    ) -> TurnRecord:
        """End the turn as failed, keeping its partial work."""
        return self._engine.write(
            end_turn(turn_id, "failed", reason, messages, account=TurnAccount(timeline), lease=self._lease)
        )

    def get(self, turn_id: str) -> TurnRecord | None:
        return self._engine.read_once(lambda tx: find_turn(tx, turn_id))

    def running(self, session_id: str) -> TurnRecord | None:
        """The one turn that runs in this session, or was running when its process died."""

        def work(tx: Transaction) -> TurnRecord | None:
            row = tx.queries.running_turn(session_id=session_id)
            return None if row is None else TurnRecord(*row)

        return self._engine.read_once(work)

    def unfinished(self) -> list[TurnRecord]:
        """Every turn that has not ended; after a crash, the ones to resume, retry or drop.

        Those of subagents are not among them: see `ConversationStatuses.delegated_turns`.
        """
        return self._engine.read_once(lambda tx: [TurnRecord(*row) for row in tx.queries.unfinished_turns()])

    def messages(self, turn_id: str) -> list[Message]:
        """All that was said in a turn, also across a rotation, each message once."""
        return self._engine.read_once(lambda tx: decode_all(tx.queries.turn_messages(turn_id=turn_id)))

    def history(self, turn_id: str) -> TurnHistory:
        """All that is on record of a turn, as of one moment."""

        def work(tx: Transaction) -> TurnHistory:
            turn = require_turn(tx, turn_id)
            timeline = tx.queries.turn_timeline(id=turn_id)
            return TurnHistory(
                turn,
                root_of(tx, turn.session_id),
                tuple(stored(row) for row in tx.queries.turn_steps(turn_id=turn_id)),
                deliveries_of(tx, turn_id),
                None if timeline is None else json.loads(timeline),
            )

        return self._engine.read(work)

    def for_providers(self, turn_id: str) -> ProviderTurn:
        """Read a completed turn as providers get it."""

        def work(tx: Transaction) -> ProviderTurn:
            found = tx.queries.ahead.turn_provider_messages(id=turn_id)
            own = decode_all(tx.queries.turn_messages(turn_id=turn_id))
            row = found()
            if row is None:
                raise TurnNotFound(turn_id)
            handed, ended, scope = row
            return ProviderTurn(own, own if handed is None else json.loads(handed), ended, scope)

        return self._engine.read(work)

    def tokens_used(self, scope: str, seconds: float) -> int:
        """How many tokens a scope used so lately: its turns that ended, and requests outside of turns."""
        period = int(seconds * SECOND)
        return self._engine.read_once(lambda tx: int(tx.queries.tokens_used(scope=scope, period_us=period)))

    def turns_running(self, scope: str) -> int:
        """How many turns of a scope are open now, in all processes."""
        return self._engine.read_once(lambda tx: int(tx.queries.turns_running(scope=scope)))

    def turns_begun(self, scope: str, seconds: float) -> int:
        """How many turns of a scope began in so many seconds before now, and messages wait for one."""
        period = int(seconds * SECOND)
        return self._engine.read_once(lambda tx: int(tx.queries.turns_begun(scope=scope, period_us=period)))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A turn that ran elsewhere, ready to be stored."""

    id: str
    session_id: str
    source: str
    columns: Sequence[Columns]
    providers: Sequence[str]
    provider_messages: str | None

    def store(self, tx: Transaction) -> None:
        """The completed turn, its messages, and what is owed for it."""
        end = _live_end_or_new(tx, self.session_id, self.source)
        generation = tx.queries.next_generation(session_id=end)
        tx.queries.insert_completed_turn(
            id=self.id, session_id=end, generation=generation, provider_messages=self.provider_messages
        )
        for role, content, extra in self.columns:
            tx.queries.insert_recorded_message(
                session_id=end, turn_id=self.id, role=role, content=content, extra=extra
            )
        for name in self.providers:
            enqueue(tx, self.id, name)


def _live_end_or_new(tx: Transaction, session_id: str, source: str) -> str:
    """The locked live end of the conversation, which begins here if the store doesn't know it."""
    tx.queries.insert_session(
        id=session_id, parent=None, relation=None, source=source, title=None, scope=OWNER
    )
    end = lock_live_end(tx, session_id)
    if require_session(tx, end).ended is not None:
        raise refuse_ended(tx, end)
    return end
