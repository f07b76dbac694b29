"""Hands completed turns to a provider: in a batch when it takes one, else turn by turn.

The turns are read from the store at the moment of delivery, so nothing is kept twice.
"""

import inspect
from collections.abc import Iterator, Sequence

from holdfast.core.contract import Message
from holdfast.core.errors import LeaseLost, TurnNotFound
from holdfast.memory.contract import CompletedTurn, MemoryProvider
from holdfast.sessions import Delivery, SessionDB
from holdfast.sessions.contract import SECOND


class Courier:
    """Knows how one provider wants its turns."""

    def __init__(self, provider: MemoryProvider, store: SessionDB) -> None:
        self._provider = provider
        self._journal = store.turns
        self._outbox = store.outbox
        self._sync_turns = getattr(provider, "sync_turns", None)
        self._takes_messages = takes(provider.sync_turn, "messages")

    @property
    def in_batches(self) -> bool:
        return self._sync_turns is not None

    def deliver(self, deliveries: Sequence[Delivery]) -> Iterator[Sequence[Delivery]]:
        """Deliver in order; yields what the provider has taken, as soon as it has."""
        if self._sync_turns is not None:
            self._sync_turns([self.turn(delivery) for delivery in deliveries])
            yield deliveries
            return
        for delivery in deliveries:
            # While the one before took its time, another process may have settled this one.
            if delivery is not deliveries[0] and not self._outbox.is_held(delivery):
                raise LeaseLost(f"delivery {delivery.id}", str(delivery.lease))
            self._sync_turn(self.turn(delivery))
            yield [delivery]

    def turn(self, delivery: Delivery) -> CompletedTurn:
        """What is handed over; `LeaseLost` when its conversation was deleted, and the delivery with it."""
        try:
            own, handed, ended = self._journal.handed_over(delivery.turn_id)
        except TurnNotFound as gone:
            raise LeaseLost(f"delivery {delivery.id}", str(delivery.lease)) from gone
        return CompletedTurn(
            key=f"{delivery.session_id}/{delivery.turn_id}/{delivery.provider}",
            session_id=delivery.session_id,
            turn_id=delivery.turn_id,
            user_content=next((text_of(each) for each in own if each["role"] == "user"), ""),
            assistant_content=next(
                (text_of(each) for each in reversed(own) if each["role"] == "assistant"), ""
            ),
            messages=handed,
            completed=ended / SECOND,
        )

    def _sync_turn(self, turn: CompletedTurn) -> None:
        extra = {"messages": list(turn.messages)} if self._takes_messages else {}
        self._provider.sync_turn(
            turn.user_content, turn.assistant_content, session_id=turn.session_id, **extra
        )


def text_of(message: Message) -> str:
    """The text of a message, its parts joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content or ""


def takes(function: object, name: str) -> bool:
    """Whether a call may pass the argument `name`; older plugins have shorter signatures."""
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return name in parameters or any(
        each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()
    )
