"""How a person's answer reaches a turn from any process: through a row of the store for each ask.

`AskRecord` stores what this process's turns ask. An answer, given here or elsewhere, changes the row first;
the first answer counts. An answer that was accepted and that the turn never took in, because it was
cut off in that moment, becomes the next message (I5).
"""

from collections.abc import Sequence

from holdfast.core.contract import Message
from holdfast.core.errors import LeaseLost
from holdfast.core.events import ApprovalAsked, QuestionAsked, event_from_json
from holdfast.core.messages import HOLDFAST_KEY
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Ask, InboxMessage
from holdfast.sessions.held_lease import HeldLease
from holdfast.tools.open_questions import AskEvent, is_answer, match_choice


class AskRecord:
    """The asks of one conversation's turns, as they run in this process."""

    def __init__(self, db: SessionDB, pool: DaemonPool) -> None:
        self._db = db
        self._pool = pool
        self.lease: HeldLease | None = None
        """The conversation's lease, while this process holds it."""
        self.unsettled: set[str] = set()
        """Turns that have asked something and whose asks are still on record."""

    async def opened(self, asked: AskEvent) -> None:
        """Write an ask down before anybody is shown it."""
        if self.lease is None:
            raise LeaseLost(asked.session_id, "this process")
        self.unsettled.add(asked.turn_id)
        await off_loop(
            self._pool, self._db.asks.put, asked.ask_id, asked.turn_id, asked.to_json(), lease=self.lease
        )

    async def closed(self, ask_id: str) -> str | None:
        """Its time ran out; an answer that came before that is returned, and counts."""
        return await off_loop(self._pool, self._db.asks.close, ask_id)

    async def of_turn(self, turn_id: str) -> list[Ask]:
        """All that is on record of what the turn asked."""
        return await off_loop(self._pool, self._db.asks.of_turn, turn_id)

    async def withhold(self, turn_id: str) -> list[Ask]:
        """The same; from now on nobody can answer what is open."""
        return await off_loop(self._pool, self._db.asks.withhold, turn_id)

    def leave(self, turn_id: str) -> None:
        """The turn is open on record and not run here any more: whoever goes on with it settles its asks."""
        self.unsettled.discard(turn_id)

    async def settle(self, turn_id: str) -> list[InboxMessage]:
        """The turn has ended, or goes on after a crash: what it asked is over. Returns what waits now."""
        waiting = await off_loop(self._pool, self._db.asks.settle, turn_id, unread_answers)
        self.unsettled.discard(turn_id)
        return waiting


def answer_ask(db: SessionDB, ask_id: str, text: str, lease_name: str, key: str | None = None) -> bool:
    """Answer an ask of the conversation that is run under this lease; False when the text doesn't count.

    Raises `InvalidInput` for an "always" where a person is asked each time.
    """
    if key is not None and db.inbox.by_key(key) is not None:
        return True  # it counted when it came first
    ask = db.asks.get(ask_id)
    asked = None if ask is None else shown(ask)
    if ask is None or (asked is not None and ask.state == "open" and not is_answer(asked, text)):
        return False
    return db.asks.answer(ask_id, text, lease_name=lease_name, key=key)


def shown(ask: Ask) -> AskEvent | None:
    """The ask as the event that every surface shows; None when this release can't read it."""
    event = event_from_json(ask.event)
    return event if isinstance(event, (ApprovalAsked, QuestionAsked)) else None


def outcome(ask: Ask | None) -> str:
    """How an ask that is not open any more ended, in words."""
    if ask is not None and ask.answer is not None:
        return f"answered: {ask.answer}"
    return "no answer in time" if ask is not None and ask.state == "closed" else "over"


def unread_answers(asks: Sequence[Ask], messages: Sequence[Message]) -> list[Message]:
    """Answers to questions whose call has no result on record: the model has not seen them."""
    received = {
        each.get("tool_call_id") for each in messages if each["role"] == "tool" and HOLDFAST_KEY not in each
    }
    words: list[Message] = []
    for ask in asks:
        asked = shown(ask)
        if isinstance(asked, QuestionAsked) and ask.answer is not None and asked.call_id not in received:
            words.append({"role": "user", "content": match_choice(ask.answer, asked.choices)})
    return words
