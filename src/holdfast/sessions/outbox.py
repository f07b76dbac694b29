"""The outbox: what is owed to each memory provider, delivered in order per session.

A claim takes a session's open deliveries from the oldest on, under a lease; only the lease's holder can
settle them, and when it runs out they can be claimed again. The lease names the process, so nobody waits for
one that is provably dead. A session whose head waits for its retry
blocks itself, never another session. What is set aside no longer blocks and waits for a person.
"""

from itertools import takewhile

from holdfast.core.errors import (
    DeliveryNotFound,
    InvalidInput,
    LeaseLost,
    NotSetAside,
)
from holdfast.core.states import DELIVERY
from holdfast.process import holder_name, is_provably_gone
from holdfast.sessions.codec import UNSTORABLE, checked_limit, checked_name, checked_seconds, to_json
from holdfast.sessions.contract import SECOND, Backlog, Delivery, Engine, Operation, Transaction
from holdfast.sessions.transcripts import root_of
from holdfast.sessions.turns import lock_turn, require_turn


class Outbox:
    """Deliveries, from owed to delivered."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def enqueue(self, turn_id: str, provider: str) -> bool:
        """Owe a completed turn to one more provider; False when it was owed already."""
        checked_name("a provider's name", provider)

        def work(tx: Transaction) -> bool:
            # In line with the session's completions, so that ids follow the order of commits.
            lock_turn(tx, turn_id)
            return enqueue(tx, turn_id, provider)

        return self._engine.write(Operation("enqueue_delivery", work))

    def claim(self, provider: str, *, lease_seconds: float, limit: int = 1) -> list[Delivery]:
        """Take up to `limit` deliveries that are due, in order within each session."""
        checked_limit(limit)
        lease = holder_name()  # another for each claim
        lease_us = checked_seconds("a claim", lease_seconds)

        def work(tx: Transaction) -> list[Delivery]:
            due = _due(tx, provider, limit)
            if not due:
                return []
            rows = tx.queries.claim_run(ids=to_json(due), lease=lease, lease_us=lease_us)
            claimed = {row[0]: Delivery(*row) for row in rows}
            return [claimed[each] for each in due]

        return self._engine.write(Operation("claim_deliveries", work))

    def free_dead_claims(self, provider: str) -> int:
        """End the claims of processes that are provably dead; returns how many deliveries are due by that."""
        claims = self._engine.read_once(
            lambda tx: [row[0] for row in tx.queries.claims_in_force(provider=provider)]
        )
        dead = [lease for lease in claims if is_provably_gone(lease)]
        if not dead:
            return 0

        def work(tx: Transaction) -> int:
            return sum(tx.queries.end_claim(lease=lease) for lease in dead)

        return self._engine.write(Operation("free_dead_claims", work))

    def extend(self, delivery: Delivery, *, lease_seconds: float) -> None:
        """Prolong a claim: every delivery under the same lease is kept from others that much longer."""
        lease_us = checked_seconds("a claim", lease_seconds)

        def work(tx: Transaction) -> None:
            if not tx.queries.extend_claim(lease=delivery.lease, lease_us=lease_us):
                raise _lost(delivery)

        self._engine.write(Operation("extend_claim", work))

    def is_held(self, delivery: Delivery) -> bool:
        """Whether nobody has settled the delivery, or claimed it again, since it was claimed."""
        now = self.get(delivery.id)
        return now is not None and now.state == "claimed" and now.lease == delivery.lease

    def mark_delivered(self, *deliveries: Delivery) -> None:
        """Note that the provider has these turns.

        Raises `LeaseLost`, and marks none, when one is no longer held.
        """

        def work(tx: Transaction) -> None:
            ahead = tx.queries.ahead
            settled = [
                ahead.settle_claim(id=each.id, lease=each.lease, state="delivered") for each in deliveries
            ]
            for delivery in deliveries:
                ahead.forget_provider_messages(id=delivery.turn_id)
            for delivery, was_held in zip(deliveries, settled, strict=True):
                if not was_held():
                    raise _lost(delivery)

        self._engine.write(Operation("mark_delivered", work))

    def defer(self, delivery: Delivery, *, delay_seconds: float, error: str) -> None:
        """It failed and may succeed later: owed again, not before the delay has passed."""
        self._return(delivery, "owed", delay_seconds=delay_seconds, error=error)

    def give_back(self, delivery: Delivery) -> None:
        """It was not tried after all: owed again at once, and the attempt is not counted."""
        self._return(delivery, "owed", counted=False)

    def set_aside(self, delivery: Delivery, *, error: str) -> None:
        """It will not succeed by itself: a dead letter that waits for a person."""
        self._return(delivery, "set_aside", error=error)

    def get(self, delivery_id: int) -> Delivery | None:
        return self._engine.read_once(lambda tx: _find(tx, delivery_id))

    def list(
        self, state: str, *, provider: str | None = None, after: int = 0, limit: int = 100
    ) -> list[Delivery]:
        """Deliveries in one state, oldest first; `after` is the last id of the page before."""
        if state not in DELIVERY.states:
            raise InvalidInput(f"state must be one of {', '.join(DELIVERY.states)}, not {state!r}")
        checked_limit(limit)

        def work(tx: Transaction) -> "list[Delivery]":
            rows = tx.queries.list_deliveries(provider=provider or "", state=state, after=after, limit=limit)
            return [Delivery(*row) for row in rows]

        return self._engine.read(work)

    def retry(self, delivery_id: int) -> None:
        """Owe a delivery again that was set aside; it is due at once."""
        self._take_up("retry_delivery", delivery_id)

    def drop(self, delivery_id: int) -> None:
        """Give up a delivery that was set aside; it stays on record as dropped."""
        self._take_up("drop_delivery", delivery_id)

    def _take_up(self, name: str, delivery_id: int) -> None:
        def work(tx: Transaction) -> None:
            if not getattr(tx.queries, name)(id=delivery_id):
                raise _not_set_aside(tx, delivery_id)

        self._engine.write(Operation(name, work))

    def rename_provider(self, expected: str, name: str) -> int:
        """Owe to `name` what was owed to a provider under the name it was expected by; returns how many."""
        checked_name("a provider's name", name)

        def work(tx: Transaction) -> int:
            return int(tx.queries.rename_provider(expected=expected, name=name))

        return self._engine.write(Operation("rename_provider", work))

    def is_due(self, provider: str) -> bool:
        """Whether a claim would find something: a read, so that whoever finds nothing writes nothing."""
        return self._engine.read_once(lambda tx: bool(tx.queries.is_due(provider=provider)))

    def next_due(self, provider: str) -> int | None:
        """When the next claim can find something, or None when nothing is owed."""

        def work(tx: Transaction) -> int | None:
            due: int | None = tx.queries.next_due(provider=provider)
            return due

        return self._engine.read_once(work)

    def last_open(self, provider: str) -> int:
        """The newest delivery that is owed to a provider by now; 0 for none."""
        return self._engine.read_once(lambda tx: int(tx.queries.last_delivery(provider=provider)))

    def is_open(self, provider: str, *, last: int, session_id: str | None = None) -> bool:
        """Whether a delivery up to `last` is still owed, in one session or in any."""
        return self._engine.read_once(
            lambda tx: bool(tx.queries.open_until(provider=provider, session_id=session_id, last=last))
        )

    def open_in(self, session_id: str) -> int:
        """How many deliveries of the conversation that a session belongs to are still owed."""
        return self._engine.read(lambda tx: int(tx.queries.open_deliveries(root=root_of(tx, session_id))))

    def backlog(self, provider: str) -> Backlog:
        """How much is owed to a provider, and since when."""

        def work(tx: Transaction) -> Backlog:
            owed, oldest = tx.queries.count_open(provider=provider)
            set_aside = tx.queries.count_set_aside(provider=provider)
            return Backlog(provider, owed, oldest, set_aside)

        return self._engine.read(work)

    def _return(
        self,
        delivery: Delivery,
        state: str,
        *,
        delay_seconds: float = 0,
        error: str | None = None,
        counted: bool = True,
    ) -> None:
        # A provider's words may hold anything; its error must be storable whatever they are.
        text = None if error is None else UNSTORABLE.sub("\ufffd", error)

        def work(tx: Transaction) -> None:
            returned = tx.queries.return_claim(
                id=delivery.id,
                lease=delivery.lease,
                state=state,
                delay_us=int(delay_seconds * SECOND),
                uncounted=0 if counted else 1,
                last_error=text,
            )
            if not returned:
                raise _lost(delivery)

        self._engine.write(Operation("return_delivery", work))


def enqueue(tx: Transaction, turn_id: str, provider: str) -> bool:
    if tx.queries.enqueue_delivery(turn_id=turn_id, provider=provider):
        return True
    turn = require_turn(tx, turn_id)
    if turn.state != "completed":
        raise InvalidInput(f"turn {turn_id!r} is {turn.state}; only a completed turn is owed to memory")
    return False


def deliveries_of(tx: Transaction, turn_id: str) -> tuple[Delivery, ...]:
    return tuple(Delivery(*row) for row in tx.queries.deliveries_of_turn(turn_id=turn_id))


def _due(tx: Transaction, provider: str, limit: int) -> list[int]:
    """Up to `limit` due deliveries: of each session from its head on, up to the first that is not due."""
    heads = list(tx.queries.due_heads(provider=provider, limit=limit))
    runs = (tx.queries.ahead.lock_run(provider=provider, session_id=each, limit=limit) for (each,) in heads)
    due: list[int] = []
    # Where statements cost a round trip all are on their way at once; else only those that are needed.
    for run in runs if tx.alone else list(runs):
        due += [delivery_id for delivery_id, _ in takewhile(lambda row: row[1], run())]
        if len(due) >= limit:
            break
    return due[:limit]


def _find(tx: Transaction, delivery_id: int) -> Delivery | None:
    row = tx.queries.get_delivery(id=delivery_id)
    return None if row is None else Delivery(*row)


def _lost(delivery: Delivery) -> LeaseLost:
    return LeaseLost(f"delivery {delivery.id}", str(delivery.lease))


def _not_set_aside(tx: Transaction, delivery_id: int) -> Exception:
    delivery = _find(tx, delivery_id)
    if delivery is None:
        return DeliveryNotFound(delivery_id)
    return NotSetAside(delivery_id, delivery.state)
