"""The inbox: a user's word is stored before anything else happens to it.

A message waits until a turn takes it (`take_next`, `join_turn`) or its author withdraws it. It is
put into the live end of the conversation, whichever of its sessions the caller names, and a rotation
moves what still waits.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from holdfast.core.content import Checked, check_parts
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, NotWaiting
from holdfast.sessions.codec import LARGEST, Columns, checked_limit, checked_name, encode, to_json
from holdfast.sessions.contract import MODES, Engine, InboxMessage, Mode, Operation, Session, Transaction
from holdfast.sessions.transcripts import live_end, refuse_ended, root_of
from holdfast.sessions.turns import require_turn


class Inbox:
    """Messages that wait for their turn, oldest first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(
        self,
        session_id: str,
        message: Message | Checked,
        *,
        mode: Mode = "queue",
        addressed_to: str | None = None,
        key: str | None = None,
    ) -> InboxMessage:
        """Store a message; once this returns it is never dropped.

        `addressed_to` names the turn an interrupt is meant for. A `key` makes the call idempotent: the
        second put with it returns the first one's message.
        """
        posted = EncodedMessage.checked(message, mode, addressed_to=addressed_to, key=key)
        return self._engine.write(Operation("put_message", lambda tx: posted.put(tx, session_id)))

    def get(self, inbox_id: int) -> InboxMessage | None:
        def work(tx: Transaction) -> InboxMessage | None:
            row = tx.queries.get_inbox_message(id=inbox_id)
            return None if row is None else _from_row(row)

        return self._engine.read_once(work)

    def by_key(self, key: str) -> InboxMessage | None:
        """The message that was put with this key."""
        return self._engine.read_once(lambda tx: message_by_key(tx, key))

    def waiting(self, session_id: str, *, limit: int | None = None) -> list[InboxMessage]:
        """What waits in this session, in the order in which it runs: interrupts first, then oldest first."""
        most = checked_limit(limit)
        return self._engine.read_once(lambda tx: waiting_messages(tx, session_id, most))

    def sessions(self) -> list[str]:
        """Every session in which something waits."""
        return self._engine.read_once(
            lambda tx: [row[0] for row in tx.queries.sessions_with_waiting_messages()]
        )

    def edit(self, inbox_id: int, message: Message | Checked, *, mode: Mode | None = None) -> InboxMessage:
        """Change a message that still waits, and (unless None) how it waits; returns it as it is now.

        What becomes an interrupt is addressed to the turn that runs; what is none any more, to no turn.
        """
        if mode is not None:
            _check_mode(mode)
        text = _checked_text(message)
        return self._engine.write(Operation("edit_message", lambda tx: _edit(tx, inbox_id, text, mode)))

    def withdraw(self, inbox_id: int) -> None:
        """Take back a message that still waits; the row stays on record."""

        def work(tx: Transaction) -> None:
            if not tx.queries.withdraw_message(id=inbox_id):
                raise _not_waiting(tx, inbox_id)

        self._engine.write(Operation("withdraw_message", work))


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message on its way into the inbox, checked and encoded."""

    text: str
    mode: Mode
    addressed_to: str | None
    key: str | None

    @classmethod
    def checked(
        cls,
        message: Message | Checked,
        mode: Mode = "queue",
        *,
        addressed_to: str | None = None,
        key: str | None = None,
    ) -> Self:
        """Refuses what can't be stored, and parts that can't be sent to a model."""
        _check_mode(mode)
        text = _checked_text(message)
        if key is not None:
            checked_name("an idempotency key", key)
        return cls(text, mode, addressed_to, key)

    def put(self, tx: Transaction, session_id: str, *, to_running_turn: bool = False) -> InboxMessage:
        """Let it wait in the conversation, addressed to the turn that runs there if the caller says so."""
        earlier = None if self.key is None else tx.queries.ahead.inbox_by_key(key=self.key)
        end = lock_live_end(tx, session_id)
        if earlier is not None and (row := earlier()) is not None:
            return _of_conversation(tx, _from_row(row), session_id)
        found = tx.queries.ahead.get_session(id=end)
        addressed = self.addressed_to
        if to_running_turn:
            running = tx.queries.running_turn(session_id=end)
            addressed = None if running is None else running[0]
        elif addressed is not None:
            require_turn(tx, addressed)
        stored = self._put(tx, end, addressed)
        if Session(*found()).ended is not None:
            raise refuse_ended(tx, end)
        return stored if stored.session_id == end else _of_conversation(tx, stored, session_id)

    def put_into_new(self, tx: Transaction, session_id: str) -> InboxMessage:
        """Let it wait in a session that begins in this transaction."""
        stored = self._put(tx, session_id, self.addressed_to)
        return stored if stored.session_id == session_id else _of_conversation(tx, stored, session_id)

    def _put(self, tx: Transaction, session_id: str, addressed: str | None) -> InboxMessage:
        row = tx.queries.put_message(
            session_id=session_id, mode=self.mode, message=self.text, addressed_to=addressed, key=self.key
        )
        # Two puts with one key at once: the loser answers with the winner's message.
        if row is None:
            return replace(_from_row(tx.queries.inbox_by_key(key=self.key)), is_repeat=True)
        return _from_row(row)


def message_by_key(tx: Transaction, key: str) -> InboxMessage | None:
    """The message that was put with this key."""
    row = tx.queries.inbox_by_key(key=key)
    return None if row is None else _from_row(row)


def waiting_messages(tx: Transaction, session_id: str, most: int = LARGEST) -> list[InboxMessage]:
    """What waits in this session, in the order in which it runs."""
    rows = tx.queries.waiting_messages(session_id=session_id, limit=most)
    return [_from_row(row) for row in rows]


def checked_columns(message: Message | Checked) -> Columns:
    """Refuse what can't be stored, and parts that can't be sent to a model."""
    if isinstance(message, Checked):
        return encode(message.message)
    columns = encode(message)
    check_parts(message)
    return columns


def _checked_text(message: Message | Checked) -> str:
    checked_columns(message)
    return to_json(message.message if isinstance(message, Checked) else message)


def _check_mode(mode: object) -> None:
    if mode not in MODES:
        raise InvalidInput(f"mode must be one of {', '.join(MODES)}, not {mode!r}")


def _edit(tx: Transaction, inbox_id: int, text: str, mode: Mode | None) -> InboxMessage:
    row = tx.queries.get_inbox_message(id=inbox_id)
    if row is None or row[4] != "waiting":
        raise _not_waiting(tx, inbox_id)
    # In line with the turns of its session, so that an interrupt is addressed to the one that runs.
    end = lock_live_end(tx, row[1])
    waiting = _from_row(row)
    wanted = waiting.mode if mode is None else mode
    addressed = waiting.addressed_to if wanted == waiting.mode else None
    if wanted == "interrupt" != waiting.mode:
        running = tx.queries.running_turn(session_id=end)
        addressed = None if running is None else running[0]
    changed = tx.queries.replace_message(id=inbox_id, message=text, mode=wanted, addressed_to=addressed)
    if changed is None:
        raise _not_waiting(tx, inbox_id)
    return _from_row(changed)


def _of_conversation(tx: Transaction, earlier: InboxMessage, session_id: str) -> InboxMessage:
    """The earlier message with the same key; another conversation's would swallow this one."""
    if root_of(tx, earlier.session_id) != root_of(tx, session_id):
        raise InvalidInput(f"the key {earlier.key!r} belongs to a message of another conversation")
    return replace(earlier, is_repeat=True)


def lock_live_end(tx: Transaction, session_id: str) -> str:
    """The session in which the conversation goes on, locked as by `lock_session`."""
    end = session_id
    while True:
        if not tx.alone:
            tx.queries.ahead.lock_session(id=end)
        # Looked for behind the lock: a rotation moves the end.
        current = live_end(tx, end)
        if current == end:
            return end
        end = current


def acknowledge(tx: Transaction, inbox_id: int, turn_id: str) -> InboxMessage:
    """Take a waiting message, as its last edit left it, into a turn whose session is locked."""
    return acknowledge_ahead(tx, inbox_id, turn_id)()


def acknowledge_ahead(tx: Transaction, inbox_id: int, turn_id: str) -> Callable[[], InboxMessage]:
    """The same for a caller that asks for more before it needs the message."""
    taken = tx.queries.ahead.acknowledge_message(id=inbox_id, turn_id=turn_id)

    def message() -> InboxMessage:
        row = taken()
        if row is None:
            raise _not_waiting(tx, inbox_id)
        return _from_row(row)

    return message


def _not_waiting(tx: Transaction, inbox_id: int) -> NotWaiting:
    row = tx.queries.get_inbox_message(id=inbox_id)
    if row is None:
        return NotWaiting(inbox_id, "unknown")
    return NotWaiting(inbox_id, "in another session" if row[4] == "waiting" else row[4])


def _from_row(row: Sequence[Any]) -> InboxMessage:
    inbox_id, session_id, mode, text, *rest = row
    return InboxMessage(inbox_id, session_id, mode, json.loads(text), *rest)
