"""How often each step of a turn goes to PostgreSQL and back: a named operation has a bound."""

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from bench.wire import CountingProxy
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Engine, Operation, SessionStart
from holdfast.sessions.conversation_operations import (
    begin_conversation,
    claim_conversation,
    release_if_idle,
    send_message,
)
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.turn_operations import (
    TurnCompletion,
    append_to_turn,
    complete_unless_steered,
    save_partial,
    take_next,
)
from tests.bench.test_wire import behind, proxy
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import assistant, user

__all__ = ["proxy"]

T = TypeVar("T")

LEASE_SECONDS = 30.0
BOUNDS = {
    # What is read before a change, then the change with COMMIT.
    "save_partial": 2,
    "claim_conversation": 2,
    "release_if_idle": 2,
    "mark_delivered": 2,
    # A change whose result is looked at before COMMIT.
    "begin_conversation": 3,
    "send_message": 3,
    "renew_lease": 3,
    "append_to_turn": 3,
    "claim_deliveries": 4,
    "take_next": 4,
    "complete_unless_steered": 4,
    # Single reads.
    "for_providers": 2,
    "next_due": 1,
    "get_messages": 1,
}


class Steps:
    """Runs the steps of a turn, and keeps how many round trips each of them took."""

    def __init__(self, engine: Engine, proxy: CountingProxy) -> None:
        self._engine = engine
        self._proxy = proxy
        self.taken: dict[str, int] = {}

    def run(self, operation: Operation[T]) -> T:
        return self.call(operation.name, lambda: self._engine.write(operation))

    def call(self, name: str, step: Callable[[], T]) -> T:
        before = self._proxy.traffic.round_trips
        result = step()
        self.taken[name] = max(self.taken.get(name, 0), self._proxy.traffic.round_trips - before)
        return result


@pytest.fixture
def place(postgres: str) -> Iterator[PostgresPlace]:
    place = PostgresPlace(postgres)
    yield place
    place.drop()


def test_each_step_of_a_turn_takes_few_round_trips(place: PostgresPlace, proxy: CountingProxy) -> None:
    engine = PostgresEngine(behind(proxy, place.url), patience=30.0, connections=1)
    with SessionDB.on(engine) as db:
        db.leases.current("nobody's")  # the connection is made
        steps = Steps(engine, proxy)
        begun = steps.run(
            begin_conversation(
                SessionStart("s", "test"), user("hi"), holder="me", lease_seconds=LEASE_SECONDS
            )
        )
        assert begun.claim is not None
        lease = db.keeper.adopt(begun.claim.lease)
        assert begun.claim.state == db.conversations.state("s")
        steps.run(take_next("s", "t1", begun.message.id, lease=lease))
        steps.run(save_partial("t1", "so", lease=lease))
        steps.run(append_to_turn("t1", [assistant("so far"), user("and?")], lease=lease))
        steps.call("renew_lease", lambda: db.leases.keep(lease))
        ending = TurnCompletion(assistant("so far so good"), ["notes"])
        steps.run(complete_unless_steered("t1", ending, lease=lease))
        released = steps.run(release_if_idle("s", lease, parked=0, recovers=True, completed=["s"]))
        db.keeper.forget(lease)
        assert released.released
        assert [each.generation for each in released.completed] == [1]
        steps.call("next_due", lambda: db.outbox.next_due("notes"))
        deliveries = steps.call("claim_deliveries", lambda: db.outbox.claim("notes", lease_seconds=30))
        steps.call("for_providers", lambda: db.turns.for_providers("t1"))
        steps.call("mark_delivered", lambda: db.outbox.mark_delivered(*deliveries))
        steps.run(send_message("s", user("more"), "queue", "key"))
        claim = steps.run(claim_conversation("s", "me", LEASE_SECONDS))
        assert claim is not None
        assert [each.message["content"] for each in claim.state.waiting] == ["more"]
        steps.call("get_messages", lambda: db.get_messages("s"))
    assert steps.taken == BOUNDS


def test_a_claim_of_many_sessions_takes_as_many_round_trips_as_one(
    place: PostgresPlace, proxy: CountingProxy
) -> None:
    engine = PostgresEngine(behind(proxy, place.url), patience=30.0, connections=1)
    with SessionDB.on(engine) as db:
        for number in range(20):
            db.turns.record(f"s{number}", [user("hi"), assistant("ho")], providers=["notes"])
        before = proxy.traffic.round_trips
        deliveries = db.outbox.claim("notes", lease_seconds=30, limit=50)
        assert len(deliveries) == 20
        assert proxy.traffic.round_trips - before <= BOUNDS["claim_deliveries"]
        before = proxy.traffic.round_trips
        db.outbox.mark_delivered(*deliveries)
        assert proxy.traffic.round_trips - before <= BOUNDS["mark_delivered"]
