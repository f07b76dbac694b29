"""Leases on the store's clock: one holder, growing tokens, renewed while alive, free soon after death."""

import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput, LeaseLost, StoreUnreachable
from holdfast.core.ids import new_id
from holdfast.sessions import Lease, SessionDB, Transaction
from holdfast.sessions.codec import LONGEST_NAME
from holdfast.sessions.contract import SECOND
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.lease_keeper import LEASE_SECONDS, RENEWALS_PER_LEASE, LeaseKeeper
from holdfast.sessions.leases import Leases, compression_lock
from holdfast.testing import FakeClock, ProcessDied
from holdfast.testing.faults import Moment
from tests.fast_run import examples
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import crashing, hold_lease, together, until, user, with_own_clock

PROMISED_SECONDS = 15.0
RENEWAL = LEASE_SECONDS / RENEWALS_PER_LEASE


def acquired(db: SessionDB, holder: str, *, ttl: float = 10.0, name: str = "name") -> Lease:
    lease = db.leases.acquire(name, holder, ttl_seconds=ttl)
    assert lease is not None
    return lease


def test_a_name_has_one_holder_at_a_time(database: Database) -> None:
    one, two = database.open(), database.open()
    assert one.leases.current("name") is None
    lease = acquired(one, "a")
    assert (lease.name, lease.holder, lease.token) == ("name", "a", 1)
    assert two.leases.current("name") == lease
    assert two.leases.acquire("name", "b", ttl_seconds=10) is None
    assert one.leases.acquire("name", "a", ttl_seconds=10) is None, "not even the holder takes it twice"
    assert two.leases.current("name") == lease
    assert acquired(two, "b", name="another name").token == 1


def test_those_that_hold_a_lease_for_one_purpose_are_listed_while_they_hold_it(database: Database) -> None:
    clock = database.clock
    db = database.open()
    assert db.leases.holders("host") == []
    acquired(db, "a", name="host:a", ttl=5)
    released = acquired(db, "b", name="host:b")
    acquired(db, "c", name="host:c")
    for other in ("hos:d", "hosts:d", "host", "session:host:d"):
        acquired(db, "d", name=other)
    assert sorted(db.leases.holders("host")) == ["a", "b", "c"]
    assert db.leases.release(released)
    clock.advance(5)
    assert db.leases.holders("host") == ["c"]


def test_of_many_that_reach_for_a_name_exactly_one_gets_it(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    for round_ in range(1, 6):
        outcomes = together(
            *(lambda n=n: stores[n % 4].leases.acquire("name", f"h{n}", ttl_seconds=10) for n in range(8))
        )
        [lease] = [each for each in outcomes if isinstance(each, Lease)]
        assert outcomes.count(None) == 7
        assert lease.token == round_
        assert stores[0].leases.release(lease)


@pytest.mark.clause("C3")
def test_tokens_grow_over_release_and_expiry(database: Database) -> None:
    db = database.open()
    tokens = []
    for number in range(6):
        lease = acquired(db, "same holder")
        tokens.append(lease.token)
        if number % 2:
            assert db.leases.release(lease)
        else:
            database.clock.advance(10)
    assert tokens == [1, 2, 3, 4, 5, 6]


def test_a_lease_is_free_at_the_moment_it_runs_out_and_not_before(database: Database) -> None:
    db = database.open()
    lease = acquired(db, "a", ttl=10)
    database.clock.advance(9.999)
    assert db.leases.current("name") == lease
    assert db.leases.acquire("name", "b", ttl_seconds=10) is None
    database.clock.advance(0.001)
    assert db.leases.current("name") is None
    assert acquired(db, "b").token == 2


@pytest.mark.clause("C3")
def test_a_lease_that_ran_out_or_was_released_can_not_be_renewed(database: Database) -> None:
    db = database.open()
    lease = acquired(db, "a")
    database.clock.advance(10)
    with pytest.raises(LeaseLost) as lost:
        db.leases.renew(lease, ttl_seconds=10)
    assert (lost.value.name, lost.value.holder) == ("name", "a")
    again = acquired(db, "a")
    with pytest.raises(LeaseLost):
        db.leases.renew(lease, ttl_seconds=10)
    assert db.leases.release(again)
    with pytest.raises(LeaseLost):
        db.leases.renew(again, ttl_seconds=10)
    with pytest.raises(LeaseLost):
        db.leases.renew(Lease("never", "a", 1, 0), ttl_seconds=10)


def test_a_renewed_lease_lasts_from_the_renewal_on(database: Database) -> None:
    db = database.open()
    lease = acquired(db, "a", ttl=10)
    database.clock.advance(9)
    renewed = db.leases.renew(lease, ttl_seconds=10)
    assert renewed.token == lease.token
    assert renewed.expires == lease.expires + 9 * SECOND
    database.clock.advance(9)
    assert db.leases.current("name") == renewed
    assert db.leases.renew(lease, ttl_seconds=10).token == 1, "the token counts, not the object"


def test_only_the_present_holder_releases(database: Database) -> None:
    db = database.open()
    old = acquired(db, "a")
    database.clock.advance(10)
    new = acquired(db, "a")
    assert not db.leases.release(old)
    assert db.leases.current("name") == new
    assert db.leases.release(new)
    assert not db.leases.release(new)
    assert not db.leases.release(Lease("never", "a", 1, 0))


@pytest.mark.parametrize("ttl", [0, -1, -0.5, float("nan"), float("inf")])
def test_a_lease_lasts_a_positive_time(db: SessionDB, ttl: float) -> None:
    with pytest.raises(InvalidInput):
        db.leases.acquire("name", "a", ttl_seconds=ttl)
    assert db.leases.current("name") is None


@given(st.lists(st.sampled_from(["acquire a", "acquire b", "release", "renew", "wait"]), max_size=20))
@settings(
    max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_token_is_never_given_twice(database: Database, steps: list[str]) -> None:
    db = database.opened[0] if database.opened else database.open()
    name, held, tokens = new_id(), None, []
    for step in steps:
        if step.startswith("acquire"):
            lease = db.leases.acquire(name, step[-1], ttl_seconds=5)
            if lease is not None:
                tokens.append(lease.token)
                held = lease
        elif step == "wait":
            database.clock.advance(3)
        elif step == "release" and held is not None:
            db.leases.release(held)
        elif held is not None:
            try:
                db.leases.renew(held, ttl_seconds=5)
            except LeaseLost:
                held = None
    assert tokens == list(range(1, len(tokens) + 1))


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_while_acquiring_leaves_a_lease_that_runs_out_or_none(
    database: Database, moment: Moment
) -> None:
    db, engine = crashing(database.open())
    engine.arm(moment)
    with pytest.raises(ProcessDied):
        db.leases.acquire("name", "a", ttl_seconds=10)
    other = database.open()
    assert (other.leases.current("name") is None) == (moment == "before")
    database.clock.advance(10)
    assert acquired(other, "b").token == (1 if moment == "before" else 2)


@pytest.mark.clause("C3")
def test_the_compression_lock_is_taken_seen_and_released(database: Database) -> None:
    one, two = database.open(), database.open()
    assert one.get_compression_lock_holder("s") is None
    assert one.try_acquire_compression_lock("s", "agent 1") is True
    assert two.get_compression_lock_holder("s") == "agent 1"
    assert two.try_acquire_compression_lock("s", "agent 2") is False
    assert one.try_acquire_compression_lock("s", "agent 1") is False
    assert two.try_acquire_compression_lock("other", "agent 2") is True
    two.release_compression_lock("s", "agent 2")
    two.release_compression_lock("s", "agent 1")
    one.release_compression_lock("s", "agent 2")
    assert one.get_compression_lock_holder("s") == "agent 1", "only its holder lets go of it"
    one.release_compression_lock("s", "agent 1")
    one.release_compression_lock("s", "agent 1")
    assert two.get_compression_lock_holder("s") is None
    assert two.try_acquire_compression_lock("s", "agent 2") is True


ODD: list[Any] = [None, "", b"s", 7, 0, True, [], {}, "\x00", "s\x00", "\ud800", "s" * (LONGEST_NAME + 1)]


@pytest.mark.clause("C3")
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:20])
def test_what_is_no_session_and_no_holder_gets_no_compression_lock(
    db: SessionDB,
    odd: Any,  # noqa: ANN401
) -> None:
    assert db.try_acquire_compression_lock(odd, "agent") is False
    assert db.try_acquire_compression_lock("s", odd) is False
    assert db.get_compression_lock_holder(odd) is None
    db.release_compression_lock(odd, "agent")
    assert db.try_acquire_compression_lock("s", "agent") is True
    db.release_compression_lock("s", odd)
    assert db.get_compression_lock_holder("s") == "agent"
    names = "select name from leases where holder is not null"
    held = db._engine.read(lambda tx: tx.connection.execute(names).fetchall())  # noqa: SLF001 - all of them
    assert held == [(compression_lock("s"),)]


@pytest.mark.clause("C1", "C3")
def test_of_many_threads_one_gets_the_compression_lock(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    outcomes = together(
        *(lambda n=n: stores[n % 4].try_acquire_compression_lock("s", f"agent {n}") for n in range(12))
    )
    assert sorted(map(bool, outcomes)) == [False] * 11 + [True]
    winner = outcomes.index(True)
    assert stores[0].get_compression_lock_holder("s") == f"agent {winner}"


@pytest.mark.clause("C3")
def test_closing_a_store_releases_its_locks(database: Database) -> None:
    one, two = database.open(), database.open()
    assert one.try_acquire_compression_lock("s", "agent 1")
    one.close()
    assert two.get_compression_lock_holder("s") is None
    one.close()


@pytest.mark.clause("C3")
def test_a_living_holder_keeps_its_lock_for_as_long_as_it_needs(database: Database) -> None:
    other = database.open()
    db, own = with_own_clock(database.open())
    assert db.try_acquire_compression_lock("s", "agent")
    name = compression_lock("s")
    lease = other.leases.current(name)
    assert lease is not None
    expires = lease.expires
    for _ in range(20):  # 75 seconds
        assert own.wait_for_waiters()
        database.clock.advance(RENEWAL)
        own.advance(RENEWAL)
        expires += int(RENEWAL * SECOND)

        def is_renewed(expected: int = expires) -> bool:
            current = other.leases.current(name)
            return current is not None and (current.token, current.expires) == (1, expected)

        until(is_renewed)
        assert not other.try_acquire_compression_lock("s", "rival")
    assert db.get_compression_lock_holder("s") == "agent"


@pytest.mark.clause("C3")
def test_a_dead_holders_lock_is_free_within_15_seconds(database: Database) -> None:
    other = database.open()
    dead, _ = with_own_clock(database.open())  # its clock stands still, so it renews nothing
    assert dead.try_acquire_compression_lock("s", "dead agent")
    assert LEASE_SECONDS <= PROMISED_SECONDS
    database.clock.advance(LEASE_SECONDS - 0.001)
    assert not other.try_acquire_compression_lock("s", "agent")
    database.clock.advance(0.001)
    assert other.get_compression_lock_holder("s") is None
    assert other.try_acquire_compression_lock("s", "agent")


@pytest.mark.clause("C3")
def test_a_holder_that_lost_its_lock_can_neither_rotate_nor_release(database: Database) -> None:
    other = database.open()
    stalled, own = with_own_clock(database.open())
    other.create_session("s", source="cli")
    other.sessions.append_message("s", user("hello"))
    assert stalled.try_acquire_compression_lock("s", "same name")
    database.clock.advance(LEASE_SECONDS)
    assert other.try_acquire_compression_lock("s", "same name")
    with pytest.raises(LeaseLost):
        stalled.rotate("s", "stale child", [], carry_from=0, holder="same name")
    stalled.release_compression_lock("s", "same name")
    assert other.get_compression_lock_holder("s") == "same name"
    assert other.children("s") == []
    assert other.rotate("s", "child", [], carry_from=0, holder="same name").carried == 1
    own.advance(RENEWAL)


@pytest.mark.clause("C3")
def test_only_a_holder_of_the_lock_rotates_under_it(database: Database) -> None:
    one, two = database.open(), database.open()
    one.create_session("s", source="cli")
    assert one.try_acquire_compression_lock("s", "agent 1")
    for db, holder in ((one, "agent 2"), (two, "agent 1"), (two, "agent 2")):
        with pytest.raises(LeaseLost):
            db.rotate("s", "child", [], carry_from=0, holder=holder)
    one.release_compression_lock("s", "agent 1")
    with pytest.raises(LeaseLost):
        one.rotate("s", "child", [], carry_from=0, holder="agent 1")
    assert one.children("s") == []


@pytest.mark.clause("D11", "C3", "N2")
def test_a_lock_that_ran_out_and_that_nobody_took_is_taken_up_with_a_new_token(database: Database) -> None:
    other = database.open()
    stalled, own = with_own_clock(database.open())
    other.create_session("s", source="cli")
    other.sessions.append_message("s", user("hello"))
    assert stalled.try_acquire_compression_lock("s", "agent")
    database.clock.advance(60)
    assert other.get_compression_lock_holder("s") is None
    assert stalled.rotate("s", "child", [], carry_from=0, holder="agent").carried == 1
    lease = other.leases.current(compression_lock("s"))
    assert lease is not None
    assert (lease.holder, lease.token) == ("agent", 2)
    stalled.release_compression_lock("s", "agent")
    assert other.get_compression_lock_holder("s") is None
    own.advance(RENEWAL)


@pytest.mark.clause("D11", "N2")
def test_a_renewal_takes_up_what_ran_out_and_nothing_that_somebody_else_had(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db = database.open()
    keeper = LeaseKeeper(db.leases, FakeClock())
    assert keeper.acquire("slept", "me") is not None
    assert keeper.acquire("taken", "me") is not None
    database.clock.advance(60)
    thief = acquired(db, "me", name="taken")
    assert db.leases.release(thief), "it is free again, but it was another's"
    with caplog.at_level(logging.INFO):
        keeper.renew_once()
    assert sorted(record.message for record in caplog.records) == ["lease.lost", "lease.taken_up_again"]
    slept = db.leases.current("slept")
    assert slept is not None
    assert slept.token == 2
    assert db.leases.current("taken") is None
    assert keeper.held("taken", "me") is None
    keeper.close()
    assert db.leases.current("slept") is None


@pytest.mark.clause("D11", "N2")
def test_a_token_whose_transaction_was_undone_is_tried_again(database: Database) -> None:
    db = database.open()
    held = hold_lease(db, "name", "me", ttl_seconds=10)
    database.clock.advance(10)

    def undone(tx: Transaction) -> None:
        held.require(tx)
        held.require(tx)
        raise RuntimeError("undone")

    for _ in range(2):
        with pytest.raises(RuntimeError):
            db._engine.write(undone)  # noqa: SLF001 - a transaction of the test's own
    assert db.leases.current("name") is None
    db.leases.keep(held)
    now = db.leases.current("name")
    assert now is not None
    assert (now.holder, now.token) == ("me", 2)
    database.clock.advance(10)
    with pytest.raises(RuntimeError):
        db._engine.write(undone)  # noqa: SLF001
    assert acquired(db, "you").token == 3
    with pytest.raises(LeaseLost):
        db.leases.keep(held)
    assert not db.leases.let_go(held)


@pytest.mark.clause("D11", "N2")
def test_of_many_threads_that_wake_together_all_go_on_under_one_new_token(database: Database) -> None:
    db = database.open()
    held = hold_lease(db, "name", "me", ttl_seconds=10)
    for token in range(2, 6):
        database.clock.advance(10)
        outcomes = together(*[lambda: db.leases.keep(held)] * 6)
        assert outcomes == [None] * 6
        assert held.token == token


def test_a_lease_that_its_holder_is_letting_go_is_not_said_to_be_lost(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    db = database.open()
    keeper = LeaseKeeper(db.leases, FakeClock())
    lease = keeper.acquire("left", "me")
    assert lease is not None
    lease.is_leaving = True
    assert db.leases.let_go(lease)  # committed, and its holder has not heard of it yet
    with caplog.at_level(logging.WARNING):
        keeper.renew_once()
    assert caplog.records == []
    assert keeper.held("left", "me") is None
    keeper.close()


def test_a_lost_lease_is_forgotten_and_said(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    db = database.open()
    keeper = LeaseKeeper(db.leases, FakeClock())
    assert keeper.acquire("kept", "me") is not None
    assert keeper.acquire("lost", "me") is not None
    database.clock.advance(LEASE_SECONDS - 1)
    keeper.renew_once()
    lost = keeper.held("lost", "me")
    assert lost is not None
    assert db.leases.let_go(lost)
    with caplog.at_level(logging.WARNING):
        keeper.renew_once()
    assert [record.message for record in caplog.records] == ["lease.lost"]
    assert keeper.held("lost", "me") is None
    assert keeper.held("kept", "me") is not None
    keeper.close()
    assert db.leases.current("kept") is None


def test_closing_succeeds_when_the_leases_can_not_be_released_any_more(database: Database) -> None:
    engine_owner = database.open()
    db, _ = with_own_clock(engine_owner)
    assert db.try_acquire_compression_lock("s", "agent")
    engine_owner.close()
    db.close()
    assert database.open().get_compression_lock_holder("s") == "agent", "until it runs out"


@pytest.mark.clause("C3")
def test_a_session_with_the_longest_id_can_be_locked(db: SessionDB) -> None:
    session_id = "s" * LONGEST_NAME
    db.create_session(session_id, source="cli")
    assert db.try_acquire_compression_lock(session_id, "agent")
    assert db.rotate(session_id, "child", [], carry_from=0, holder="agent").child_id == "child"


def test_a_lease_released_while_it_is_renewed_is_not_called_lost(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    class ReleasesFirst(Leases):
        def keep(self, held: HeldLease) -> None:
            keeper.release(held.name, held.holder)
            super().keep(held)

    keeper = LeaseKeeper(ReleasesFirst(database.open()._engine), FakeClock())  # noqa: SLF001 - built on it
    assert keeper.acquire("name", "me") is not None
    with caplog.at_level(logging.WARNING):
        keeper.renew_once()
    assert caplog.records == []
    keeper.close()


def test_a_lease_that_could_not_be_released_is_released_by_the_next_renewal(database: Database) -> None:
    class Unreachable(Leases):
        fails = True

        def let_go(self, held: HeldLease) -> bool:
            if self.fails:
                raise StoreUnreachable("the server", "no route")
            return super().let_go(held)

    leases = Unreachable(database.open()._engine)  # noqa: SLF001 - built on it
    keeper = LeaseKeeper(leases, FakeClock())
    assert keeper.acquire("name", "me") is not None
    with pytest.raises(StoreUnreachable):
        keeper.release("name", "me")
    assert keeper.held("name", "me") is None
    keeper.renew_once()
    assert leases.last("name") is not None, "the store fails still"
    leases.fails = False
    keeper.renew_once()
    assert leases.last("name") is None
    keeper.close()
