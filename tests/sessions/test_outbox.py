"""The outbox: what is owed to each provider is claimed in order, under a lease, and never lost."""

import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest

from holdfast.core.errors import (
    InvalidInput,
    LeaseLost,
    TurnNotFound,
)
from holdfast.sessions import Delivery, SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.testing import ProcessDied
from holdfast.testing.faults import Moment
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import (
    LEASE,
    claim,
    claim_one,
    completed_turn,
    crashing,
    found,
    owe,
    together,
    user,
)


@pytest.fixture
def session(db: SessionDB) -> str:
    return db.create_session("s", source="cli").id


@pytest.mark.clause("D1")
def test_what_is_owed_is_delivered_after_a_restart(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    turns = owe(db, "s", 3)
    restarted = database.open()
    for turn_id in turns:
        delivery = claim_one(restarted)
        assert (delivery.turn_id, delivery.state, delivery.attempts) == (turn_id, "claimed", 1)
        restarted.outbox.mark_delivered(delivery)
    assert claim(restarted) == []
    assert [each.turn_id for each in restarted.outbox.list("delivered")] == turns


@pytest.mark.clause("M6")
def test_a_sessions_turns_are_claimed_in_order_one_after_the_other(db: SessionDB, session: str) -> None:
    first, second = owe(db, session, 2)
    delivery = claim_one(db)
    assert delivery.turn_id == first
    assert claim(db) == [], "the second waits for the first"
    db.outbox.mark_delivered(delivery)
    assert claim_one(db).turn_id == second


@pytest.mark.clause("M6")
def test_a_batch_is_in_order_within_each_session_and_has_a_limit(db: SessionDB) -> None:
    owed = {}
    for session_id in ("a", "b", "c"):
        db.create_session(session_id, source="cli")
        owed[session_id] = owe(db, session_id, 4)
    assert claim(db, limit=0) == []
    batch = claim(db, limit=6)
    assert len(batch) == 6
    assert len({delivery.lease for delivery in batch}) == 1
    for session_id, turns in owed.items():
        own = [each.turn_id for each in batch if each.session_id == session_id]
        assert own == turns[: len(own)]
    for delivery in batch:
        db.outbox.mark_delivered(delivery)
    rest = claim(db, limit=100)
    assert len(rest) == 6
    for session_id, turns in owed.items():
        own = [each.turn_id for each in [*batch, *rest] if each.session_id == session_id]
        assert own == turns


@pytest.mark.clause("M6", "D3")
def test_a_head_that_waits_for_its_retry_holds_back_its_own_session_only(
    database: Database,
) -> None:
    db = database.open()
    for session_id in ("slow", "quick"):
        db.create_session(session_id, source="cli")
    slow = owe(db, "slow", 2)
    failing = claim_one(db)
    db.outbox.defer(failing, delay_seconds=30, error="503")
    quick = owe(db, "quick", 2)
    assert [each.turn_id for each in claim(db, limit=10)] == quick
    assert claim(db, limit=10) == []
    database.clock.advance(29.999)
    assert claim(db, limit=10) == []
    database.clock.advance(0.001)
    assert [each.turn_id for each in claim(db, limit=10)] == slow
    assert found(db, failing).attempts == 2


@pytest.mark.clause("M6")
def test_a_follower_is_not_claimed_before_its_own_delay_has_passed(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    turns = owe(db, "s", 3)
    one, two, three = claim(db, limit=3)
    db.outbox.defer(two, delay_seconds=100, error="503")
    db.outbox.defer(one, delay_seconds=5, error="503")
    db.outbox.give_back(three)
    database.clock.advance(5)
    assert [each.turn_id for each in claim(db, limit=3)] == turns[:1]
    assert found(db, two).attempts == 1
    database.clock.advance(95)
    assert [each.turn_id for each in claim(db, limit=3)] == turns


@pytest.mark.clause("M6")
def test_a_live_claim_is_not_taken_along_with_a_head_that_came_back(database: Database) -> None:
    one, two = database.open(), database.open()
    one.create_session("s", source="cli")
    turns = owe(one, "s", 2)
    first, second = claim(one, limit=2)
    one.outbox.give_back(first)
    assert [each.turn_id for each in claim(two, limit=2)] == turns[:1]
    one.outbox.mark_delivered(second)
    assert found(one, second).state == "delivered"


@pytest.mark.clause("M6")
def test_across_a_rotation_every_turn_is_owed_under_the_session_it_ended_in(
    db: SessionDB, session: str
) -> None:
    before = owe(db, session, 1)
    running = db.turns.open(session, user("q"))
    db.rotate(session, "child", [], carry_from=0)
    db.turns.complete(running.id, providers=["p"])
    places = {each.turn_id: each.session_id for each in db.outbox.list("owed")}
    assert places == {before[0]: session, running.id: "child"}


def test_providers_do_not_wait_for_each_other(db: SessionDB, session: str) -> None:
    turns = owe(db, session, 2, "a", "b")
    held = claim_one(db, "a")
    for turn_id in turns:
        delivery = claim_one(db, "b")
        assert delivery.turn_id == turn_id
        db.outbox.mark_delivered(delivery)
    assert found(db, held).state == "claimed"
    assert claim(db, provider="nobody") == []


@pytest.mark.clause("D1")
def test_a_claim_whose_lease_ran_out_is_claimed_again(database: Database) -> None:
    db, other = database.open(), database.open()
    db.create_session("s", source="cli")
    turns = owe(db, "s", 2)
    first = claim(db, limit=2)
    database.clock.advance(LEASE - 0.001)
    assert claim(other, limit=2) == []
    database.clock.advance(0.001)
    again = claim(other, limit=2)
    assert [each.turn_id for each in again] == turns
    assert [each.attempts for each in again] == [2, 2]
    assert {each.lease for each in again}.isdisjoint({each.lease for each in first})


CLAIMS_AND_DIES = """
import sys
from holdfast.sessions import SessionDB
[claimed] = SessionDB.open(sys.argv[1]).outbox.claim("p", lease_seconds=3600)
"""


@pytest.mark.clause("D1", "N2")
def test_what_a_process_of_this_machine_had_claimed_is_free_at_once_when_it_is_dead(live_url: str) -> None:
    with SessionDB.open(live_url) as db:
        for session_id in ("left", "kept"):
            db.create_session(session_id, source="cli")
        [left] = owe(db, "left", 1)
        subprocess.run([sys.executable, "-c", CLAIMS_AND_DIES, live_url], check=True, timeout=60)
        owe(db, "kept", 1)
        kept = claim_one(db)
        assert kept.session_id == "kept", "the other is claimed"
        assert db.outbox.free_dead_claims("another") == 0
        assert db.outbox.free_dead_claims("p") == 1
        again = claim_one(db)
        assert (again.turn_id, again.attempts) == (left, 2)
        assert db.outbox.free_dead_claims("p") == 0, "these are claims of the living"
        db.outbox.mark_delivered(kept, again)


@pytest.mark.parametrize(
    "settle",
    [
        lambda db, late: db.outbox.mark_delivered(late),
        lambda db, late: db.outbox.defer(late, delay_seconds=1, error="late"),
        lambda db, late: db.outbox.give_back(late),
        lambda db, late: db.outbox.set_aside(late, error="late"),
        lambda db, late: db.outbox.extend(late, lease_seconds=LEASE),
    ],
    ids=["mark_delivered", "defer", "give_back", "set_aside", "extend"],
)
def test_a_late_holder_can_not_settle_what_another_claimed(
    database: Database, settle: Callable[[SessionDB, Delivery], None]
) -> None:
    db, other = database.open(), database.open()
    db.create_session("s", source="cli")
    owe(db, "s", 1)
    late = claim_one(db)
    database.clock.advance(LEASE)
    assert db.outbox.is_held(late), "nobody else wanted it"
    present = claim_one(other)
    assert (db.outbox.is_held(late), other.outbox.is_held(present)) == (False, True)
    with pytest.raises(LeaseLost):
        settle(db, late)
    assert found(db, present) == present
    other.outbox.mark_delivered(present)
    with pytest.raises(LeaseLost):
        settle(db, present)
    assert found(db, present).state == "delivered"


def test_a_claim_is_prolonged_as_a_whole(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    owe(db, "s", 2)
    first, second = claim(db, limit=2)
    database.clock.advance(LEASE - 1)
    db.outbox.extend(first, lease_seconds=LEASE)
    database.clock.advance(LEASE - 1)
    assert claim(database.open(), limit=2) == []
    db.outbox.mark_delivered(first)
    db.outbox.mark_delivered(second)


def test_many_workers_never_hold_one_delivery_together(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    for session_id in "abcdef":
        stores[0].create_session(session_id, source="cli")
        owe(stores[0], session_id, 5)

    def work(number: int) -> list[Delivery]:
        delivered: list[Delivery] = []
        while batch := claim(stores[number], limit=3):
            for delivery in batch:
                stores[number].outbox.mark_delivered(delivery)
            delivered += batch
        return delivered

    outcomes = together(*(lambda n=n: work(n) for n in range(4)))
    delivered = [each for outcome in outcomes for each in cast(list[Delivery], outcome)]
    assert all(each.attempts == 1 for each in delivered)
    assert len({each.id for each in delivered}) == len(delivered)
    # A worker may find nothing while others hold every head, so some may be left over.
    left = work(0)
    assert len(delivered) + len(left) == 30


@pytest.mark.clause("D3")
def test_a_deferred_delivery_keeps_its_error_and_counts_its_attempts(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    owe(db, "s", 1)
    [delivery] = db.outbox.list("owed")
    for attempt in (1, 2, 3):
        delivery = claim_one(db)
        assert delivery.attempts == attempt
        db.outbox.defer(delivery, delay_seconds=10, error=f"failure {attempt}")
        waiting = found(db, delivery)
        assert (waiting.state, waiting.lease) == ("owed", None)
        assert waiting.last_error == f"failure {attempt}"
        assert db.outbox.next_due("p") == waiting.due
        database.clock.advance(10)
    db.outbox.mark_delivered(claim_one(db))
    done = found(db, delivery)
    assert (done.state, done.last_error, done.attempts) == ("delivered", None, 4)
    assert done.settled is not None


def test_giving_back_does_not_count_as_an_attempt(db: SessionDB, session: str) -> None:
    owe(db, session, 1)
    delivery = claim_one(db)
    db.outbox.defer(delivery, delay_seconds=0, error="503")
    again = claim_one(db)
    db.outbox.give_back(again)
    given_back = found(db, again)
    assert (given_back.state, given_back.attempts, given_back.last_error) == ("owed", 1, "503")
    assert claim_one(db).attempts == 2, "and it is due at once"


@pytest.mark.parametrize("error", ["nul \x00 byte", "half \ud800 pair", "", "🎉" * 10_000, "'\"\n"])
def test_a_providers_error_is_kept_whatever_it_says(db: SessionDB, session: str, error: str) -> None:
    owe(db, session, 1)
    delivery = claim_one(db)
    db.outbox.defer(delivery, delay_seconds=0, error=error)
    kept = found(db, delivery).last_error
    db.outbox.set_aside(claim_one(db), error=error)
    assert found(db, delivery).last_error == kept
    assert kept is not None
    assert len(kept) == len(error)
    assert [one for one, other in zip(kept, error, strict=True) if one != other] in ([], ["\ufffd"])


@pytest.mark.clause("D1")
def test_a_completed_turn_can_be_owed_to_one_more_provider_once(db: SessionDB, session: str) -> None:
    turn = completed_turn(db, session, providers=["a"])
    assert db.outbox.enqueue(turn.id, "b")
    assert not db.outbox.enqueue(turn.id, "b")
    assert not db.outbox.enqueue(turn.id, "a")
    assert sorted(each.provider for each in db.outbox.list("owed")) == ["a", "b"]


def test_only_a_completed_turn_is_owed(db: SessionDB, session: str) -> None:
    running = db.turns.open(session, user("q"))
    for end in (None, lambda: db.turns.fail(running.id, "x")):
        if end is not None:
            end()
        with pytest.raises(InvalidInput, match="completed"):
            db.outbox.enqueue(running.id, "p")
    with pytest.raises(TurnNotFound):
        db.outbox.enqueue("nobody", "p")
    with pytest.raises(InvalidInput, match="provider"):
        db.outbox.enqueue(running.id, "")
    assert db.outbox.list("owed") == []


def test_next_due_says_when_a_claim_can_find_something(database: Database) -> None:
    db = database.open()
    assert db.outbox.next_due("p") is None
    for session_id in ("a", "b"):
        db.create_session(session_id, source="cli")
        owe(db, session_id, 2)
    now = db.outbox.next_due("p")
    assert now == min(each.due for each in db.outbox.list("owed"))
    one, two = claim_one(db), claim_one(db)
    assert db.outbox.next_due("p") == now + LEASE * SECOND, "when a lease runs out"
    db.outbox.defer(one, delay_seconds=7, error="x")
    assert db.outbox.next_due("p") == now + 7 * SECOND
    db.outbox.set_aside(two, error="x")
    assert db.outbox.next_due("p") == now, "the follower of what was set aside"
    assert db.outbox.next_due("other") is None


@pytest.mark.clause("D1")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_claiming_or_settling_loses_nothing(database: Database, moment: Moment) -> None:
    db, engine = crashing(database.open())
    db.create_session("s", source="cli")
    owe(db, "s", 1)
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        claim(db)
    restarted = database.open()
    assert len(restarted.outbox.list("owed" if moment == "before" else "claimed")) == 1
    database.clock.advance(LEASE)
    delivery = claim_one(db)
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.outbox.mark_delivered(delivery)
    state = found(database.open(), delivery).state
    assert state == ("claimed" if moment == "before" else "delivered")
