"""Delivers completed turns to a provider: in batches when it has `sync_turns`, else one by one.

The turns are read from the store when they are delivered, so the outbox holds no copy of them.
"""

import inspect
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

from holdfast.core.errors import LeaseLost, TurnNotFound
from holdfast.core.messages import text_of
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.forgetting import turn_key
from holdfast.memory.provider_gate import WRITE_SECONDS, GatedProvider
from holdfast.sessions import Delivery, SessionDB
from holdfast.sessions.contract import SECOND


class TurnDelivery:
    """Calls `sync_turns` or `sync_turn` of one provider."""

    def __init__(self, gated: GatedProvider, store: SessionDB) -> None:
        provider = gated.provider
        self._gate = gated.gate
        self._gated = gated
        self._journal = store.turns
        self._outbox = store.outbox
        self._takes_batches = getattr(provider, "sync_turns", None) is not None
        self._takes_messages = accepts_argument(provider.sync_turn, "messages")

    @property
    def takes_batches(self) -> bool:
        return self._takes_batches

    def deliver(self, deliveries: Sequence[Delivery]) -> Iterator[Sequence[Delivery]]:
        """Deliver in order; yields each group of deliveries as soon as the provider has accepted it."""
        if self._takes_batches:
            turns = [self.turn(delivery) for delivery in deliveries]
            place = 0
            for scope, group in groupby(turns, key=itemgetter(0)):
                if place and not self._outbox.is_held(deliveries[place]):
                    raise LeaseLost(f"delivery {deliveries[place].id}", str(deliveries[place].lease))
                batch = [turn for _, turn in group]
                self._gate.run("sync_turns", WRITE_SECONDS, partial(self._sync_turns, scope, batch))
                yield deliveries[place : place + len(batch)]
                place += len(batch)
            return
        for delivery in deliveries:
            # During the delivery before it, another process may have delivered this one.
            if delivery is not deliveries[0] and not self._outbox.is_held(delivery):
                raise LeaseLost(f"delivery {delivery.id}", str(delivery.lease))
            scope, turn = self.turn(delivery)
            self._gate.run("sync_turn", WRITE_SECONDS, partial(self._sync_turn, scope, turn))
            yield [delivery]

    def turn(self, delivery: Delivery) -> tuple[str, CompletedTurn]:
        """The turn of a delivery and its scope; `LeaseLost` when its conversation was deleted, and it too."""
        try:
            stored = self._journal.for_providers(delivery.turn_id)
        except TurnNotFound as gone:
            raise LeaseLost(f"delivery {delivery.id}", str(delivery.lease)) from gone
        own = stored.own
        return stored.scope, CompletedTurn(
            key=turn_key(delivery.session_id, delivery.turn_id, delivery.provider),
            session_id=delivery.session_id,
            turn_id=delivery.turn_id,
            user_content=next((text_of(each) for each in own if each["role"] == "user"), ""),
            assistant_content=next(
                (text_of(each) for each in reversed(own) if each["role"] == "assistant"), ""
            ),
            messages=stored.handed,
            completed=stored.ended / SECOND,
        )

    def _sync_turns(self, scope: str, turns: Sequence[CompletedTurn]) -> None:
        provider: Any = self._gated.of(scope)
        provider.sync_turns(turns)

    def _sync_turn(self, scope: str, turn: CompletedTurn) -> None:
        extra = {"messages": list(turn.messages)} if self._takes_messages else {}
        self._gated.of(scope).sync_turn(
            turn.user_content, turn.assistant_content, session_id=turn.session_id, **extra
        )


def accepts_argument(function: object, name: str) -> bool:
    """Whether a function accepts the argument `name`; older plugins have shorter signatures."""
    try:
        parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return name in parameters or any(
        each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values()
    )
