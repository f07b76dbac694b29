"""Asks: what a turn waits for a person to say, on record so that any process can show and answer it.

An ask is settled once, by the row's own state: the first answer counts, from whichever process, until the
turn closes the ask. It counts only while the asking process holds the conversation, so one that died leaves
nothing open.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.content import Checked
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.sessions.chat_posts import post_ask
from holdfast.sessions.codec import checked_name, decode_all, is_storable, to_json
from holdfast.sessions.contract import Ask, Engine, InboxMessage, Operation, Transaction
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.inbox import EncodedMessage
from holdfast.sessions.operations import operation
from holdfast.sessions.turns import lock_running_turn, lock_turn

Unheard = Callable[[Sequence[Ask], Sequence[Message]], Sequence[Message]]
"""Of a turn's asks and messages: the answers that the turn never took in, as messages."""


class Asks:
    """The open asks of running turns."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def put(self, ask_id: str, turn_id: str, event: Mapping[str, Any], *, lease: HeldLease) -> None:
        """Ask; the lease is the conversation's, and the asking process must hold it."""
        checked_name("an ask's id", ask_id)
        # Escaped to ASCII: what a model asks may hold characters that no store takes.
        text = json.dumps(event)

        def work(tx: Transaction) -> None:
            session_id = lock_running_turn(tx, turn_id, lease).session_id
            tx.queries.put_ask(id=ask_id, turn_id=turn_id, lease=lease.name, token=lease.token, event=text)
            post_ask(tx, turn_id, session_id, event)

        self._engine.write(Operation("put_ask", work))

    def answer(self, ask_id: str, text: str, *, lease_name: str, key: str | None = None) -> bool:
        """Answer an ask of the conversation with this lease; False when it is closed, or never was.

        With a `key` the inbox keeps, beyond the ask's own life, that the turn has taken this answer.
        """
        if not is_storable(text):
            raise InvalidInput("an answer must be plain text without NUL or half surrogate pairs")

        def work(tx: Transaction) -> bool:
            if not tx.queries.answer_ask(id=ask_id, lease=lease_name, answer=text):
                return False
            if key is not None:
                said = to_json({"role": "user", "content": text})
                tx.queries.keep_answer(id=ask_id, message=said, key=key)
            return True

        return self._engine.write(Operation("answer_ask", work))

    def close(self, ask_id: str) -> str | None:
        """Take no more answers; returns the one that was accepted before."""

        def work(tx: Transaction) -> str | None:
            if tx.queries.close_ask(id=ask_id):
                return None
            row = tx.queries.get_ask(id=ask_id)
            return None if row is None else _from_row(row).answer

        return self._engine.write(Operation("close_ask", work))

    def withhold(self, turn_id: str) -> list[Ask]:
        """Take no more answers to what the turn asks, and leave that open; returns all that it has asked.

        For a turn that is left to another process: an answer counts before this or not at all.
        """

        def work(tx: Transaction) -> list[Ask]:
            tx.queries.withhold_asks(turn_id=turn_id)
            return _asks_of(tx, turn_id)

        return self._engine.write(Operation("withhold_asks", work))

    def get(self, ask_id: str) -> Ask | None:
        def work(tx: Transaction) -> Ask | None:
            row = tx.queries.get_ask(id=ask_id)
            return None if row is None else _from_row(row)

        return self._engine.read(work)

    def open(self, session_id: str) -> list[Ask]:
        """What the session's running turn waits for, oldest first."""
        return self._engine.read_once(
            lambda tx: [_from_row(row) for row in tx.queries.open_asks(session_id=session_id)]
        )

    def of_turn(self, turn_id: str) -> list[Ask]:
        """All that the turn has asked, settled or not."""
        return self._engine.read(lambda tx: _asks_of(tx, turn_id))

    def left_behind(self) -> list[str]:
        """Turns that have ended and whose asks nobody has settled."""
        return self._engine.read_once(lambda tx: [row[0] for row in tx.queries.turns_with_asks_left()])

    def settle(self, turn_id: str, unheard: Unheard) -> list[InboxMessage]:
        """Forget the asks of a turn; answers that it never took in become the next messages."""
        while True:
            asks, said = self._engine.read(lambda tx: _asked_and_said(tx, turn_id))
            answers = unheard(asks, said) if any(ask.answer for ask in asks) else ()
            # An answer may come between the read and this: then both are done again.
            with suppress(_AsksChanged):
                return self._engine.write(settle_asks(turn_id, asks, answers))


class _AsksChanged(Exception):
    """The asks of a turn are not as they were read."""


@operation
def settle_asks(
    turn_id: str, seen: Sequence[Ask], answers: Sequence[Message]
) -> Callable[[Transaction], list[InboxMessage]]:
    """Forget the asks of a turn and, unless it is completed, let `answers` wait as the next messages."""
    posted = [EncodedMessage.checked(Checked(each)) for each in answers]

    def work(tx: Transaction) -> list[InboxMessage]:
        turn = lock_turn(tx, turn_id)
        gone = tx.queries.forget_asks(turn_id=turn_id)
        if sorted(map(_from_row, gone), key=_age) != list(seen):
            raise _AsksChanged
        return [] if turn.state == "completed" else [each.put(tx, turn.session_id) for each in posted]

    return work


def _asked_and_said(tx: Transaction, turn_id: str) -> tuple[list[Ask], list[Message]]:
    return _asks_of(tx, turn_id), decode_all(tx.queries.turn_messages(turn_id=turn_id))


def _asks_of(tx: Transaction, turn_id: str) -> list[Ask]:
    return sorted(map(_from_row, tx.queries.asks_of_turn(turn_id=turn_id)), key=_age)


def _age(ask: Ask) -> tuple[int, str]:
    return ask.created, ask.id


def _from_row(row: Sequence[Any]) -> Ask:
    ask_id, turn_id, lease, event, *rest = row
    return Ask(ask_id, turn_id, lease, json.loads(event), *rest)
