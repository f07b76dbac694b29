"""Moments that only PostgreSQL has, where transactions run side by side: each is brought about on purpose.

A raw connection holds a row in the middle of its change; the call under test is seen to wait for it.
"""

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from holdfast.core.errors import AlreadyContinued, LeaseLost
from holdfast.sessions import Delivery, SessionDB
from holdfast.sessions.lease_keeper import LEASE_SECONDS
from tests.sessions.databases import Database, PostgresPlace, StillPostgres
from tests.sessions.postgres_children import PROVIDER
from tests.sessions.store_fixtures import assistant, completed_turn, contents, together, until, user

T = TypeVar("T")

DEADLINE = 60
LEASE = 30


@pytest.fixture
def database(still_postgres: StillPostgres) -> Iterator[Database]:
    database = still_postgres.database()
    yield database
    database.close()


@contextmanager
def in_the_middle_of(database: Database, change: str) -> Iterator[None]:
    """A change that was made and is committed only when the block ends."""
    with psycopg.connect(database.url) as connection:
        connection.execute(change.encode())
        yield


def seen_waiting(database: Database, call: Callable[[], T]) -> "Future[T]":
    """A call on a thread of its own, once it is seen to wait for a lock."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised where the test asks for the result
            future.set_exception(error)

    with psycopg.connect(database.url, autocommit=True) as watcher:
        before = _waiters(watcher)
        threading.Thread(target=run, daemon=True).start()
        until(lambda: _waiters(watcher) > before or future.done())
        assert not future.done(), future.result()
    return future


def _waiters(watcher: "psycopg.Connection[tuple[int]]") -> int:
    row = watcher.execute("select count(*) from pg_locks where not granted").fetchone()
    assert row is not None
    return row[0]


def owed(db: SessionDB, session: str, turns: int) -> list[str]:
    """A session with so many completed turns; their ids in order."""
    db.create_session(session, source="test")
    return [completed_turn(db, session, providers=[PROVIDER]).id for _ in range(turns)]


# the outbox


def test_a_lease_that_is_just_being_extended_is_not_taken_over(database: Database) -> None:
    db = database.open()
    owed(db, "s", 2)
    mine = db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=2)
    database.clock.advance(LEASE)
    with in_the_middle_of(database, "update outbox set due = due + 30000000"):
        rival = seen_waiting(database, lambda: db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=2))
    assert rival.result(DEADLINE) == []
    for delivery in mine:
        db.outbox.mark_delivered(delivery)


def test_a_late_settlement_and_a_new_claim_agree_on_who_came_first(database: Database) -> None:
    db = database.open()
    turns = owed(db, "s", 2)
    [late] = db.outbox.claim(PROVIDER, lease_seconds=LEASE)
    database.clock.advance(LEASE)
    settle = "update outbox set state = 'delivered', lease = null, settled = 1 where state = 'claimed'"
    with in_the_middle_of(database, settle):
        rival = seen_waiting(database, lambda: db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=2))
    claimed = rival.result(DEADLINE)
    assert [delivery.turn_id for delivery in claimed] == turns[1:]
    with pytest.raises(LeaseLost):
        db.outbox.mark_delivered(late)


def test_claimers_that_meet_never_share_nor_overtake(database: Database) -> None:
    stores = [database.open() for _ in range(3)]
    turns = {f"s{n}": owed(stores[0], f"s{n}", 4) for n in range(4)}
    reached: list[Delivery] = []

    def drain(db: SessionDB, limit: int) -> None:
        while db.outbox.backlog(PROVIDER).owed:
            for delivery in db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=limit):
                reached.append(delivery)
                db.outbox.mark_delivered(delivery)

    def complete(db: SessionDB) -> None:
        for _ in range(6):
            for session, done in turns.items():
                done.append(completed_turn(db, session, providers=[PROVIDER]).id)

    outcomes = together(
        lambda: complete(stores[0]),
        *(
            lambda db=db, limit=limit: drain(db, limit)
            for db, limit in zip(stores * 2, (1, 2, 3, 1, 5, 20), strict=True)
        ),
    )
    assert outcomes == [None] * 7
    drain(stores[0], 10)
    for session, done in turns.items():
        assert [each.turn_id for each in reached if each.session_id == session] == done


def test_processes_that_deliver_side_by_side_keep_the_order(postgres: str) -> None:
    place = PostgresPlace(postgres)
    with SessionDB.open(place.url) as db:
        turns = {f"s{n}": owed(db, f"s{n}", 15) for n in range(3)}
        place.connection.execute(
            "create table reached (n bigint generated always as identity, session_id text, turn_id text)"
        )
        command = [sys.executable, "-m", "tests.sessions.postgres_children", "deliver", place.url]
        checkout = Path(__file__).resolve().parents[2]
        processes = [subprocess.Popen(command, cwd=checkout) for _ in range(4)]
        for process in processes:
            assert process.wait(DEADLINE) == 0
        reached = place.connection.execute("select session_id, turn_id from reached order by n").fetchall()
        for session, done in turns.items():
            assert [turn for where, turn in reached if where == session] == done
        assert db.outbox.backlog(PROVIDER).owed == 0
    place.drop()


def test_a_turn_owed_to_one_more_provider_stands_in_line_with_completions(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="test")
    turn = completed_turn(db, "s")
    with in_the_middle_of(database, "update sessions set generation = generation"):
        enqueuing = seen_waiting(database, lambda: db.outbox.enqueue(turn.id, PROVIDER))
    assert enqueuing.result(DEADLINE) is True


def test_a_retried_delivery_does_not_take_a_live_claim_along(database: Database) -> None:
    db = database.open()
    owed(db, "s", 3)
    [first] = db.outbox.claim(PROVIDER, lease_seconds=LEASE)
    db.outbox.set_aside(first, error="not today")
    held = db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=1)
    db.outbox.retry(first.id)
    assert [each.id for each in db.outbox.claim(PROVIDER, lease_seconds=LEASE, limit=3)] == [first.id]
    for delivery in held:
        db.outbox.mark_delivered(delivery)


# inbox, turns and rotation


def test_an_edit_that_came_first_is_what_the_turn_takes(database: Database) -> None:
    db = database.open()
    db.create_session("s", source="test")
    word = db.inbox.put("s", user("helo"))
    edit = """update inbox set message = '{"role":"user","content":"hello"}'"""
    with in_the_middle_of(database, edit):
        opening = seen_waiting(database, lambda: db.turns.open("s", take=word.id))
    turn = opening.result(DEADLINE)
    assert contents(db.turns.messages(turn.id)) == ["hello"]


def test_a_message_joins_its_turn_across_a_rotation(database: Database) -> None:
    db = database.open()
    for attempt in range(5):
        session = f"s{attempt}"
        db.create_session(session, source="test")
        turn = db.turns.open(session, user("go"))
        word = db.inbox.put(session, user("and this"))
        outcomes = together(
            lambda at=session: db.rotate(at, f"{at} child", [], carry_from=0),  # type: ignore[misc]
            lambda word=word, turn=turn: db.turns.join(turn.id, word.id),  # type: ignore[misc]
        )
        assert outcomes[1] == user("and this")
        taken = db.inbox.get(word.id)
        assert taken is not None
        assert (taken.state, taken.turn_id) == ("taken", turn.id)


def test_nobody_takes_the_lock_over_while_its_holder_rotates(database: Database) -> None:
    one, two = database.open(), database.open()
    one.create_session("s", source="test")
    one.inbox.put("s", user("still waiting"))
    assert one.try_acquire_compression_lock("s", "one")
    # The rotation has checked its lease and stops at the inbox.
    with in_the_middle_of(database, "update inbox set created = created"):
        rotating = seen_waiting(database, lambda: one.rotate("s", "child", [], carry_from=0, holder="one"))
        database.clock.advance(LEASE_SECONDS)
        rival = seen_waiting(database, lambda: two.try_acquire_compression_lock("s", "two"))
    assert rotating.result(DEADLINE).child_id == "child"
    # The rival has the lock now, unless its holder, which lives, was first to take it up again.
    refusal = AlreadyContinued if rival.result(DEADLINE) else LeaseLost
    with pytest.raises(refusal):
        two.rotate("s", "second child", [], carry_from=0, holder="two")
    assert two.children("s") == ["child"]


def test_appends_side_by_side_leave_dense_sequences(database: Database) -> None:
    stores = [database.open() for _ in range(2)]
    stores[0].create_session("s", source="test")
    turn = stores[0].turns.open("s", user("go"))
    barrier = threading.Barrier(6)
    order = random.Random(7)

    def append(db: SessionDB, name: str, *, in_turn: bool) -> None:
        barrier.wait(DEADLINE)
        for n in range(15):
            if in_turn:
                db.turns.append(turn.id, [assistant(f"{name} {n}")])
            else:
                db.sessions.append_message("s", user(f"{name} {n}"))

    calls = [lambda n=n: append(stores[n % 2], f"writer {n}", in_turn=order.random() < 0.5) for n in range(6)]
    assert together(*calls) == [None] * 6
    stored = stores[0].sessions.read("s")
    assert [each.seq for each in stored] == list(range(91))
    for n in range(6):
        said = [text for text in contents([each.message for each in stored]) if f"writer {n} " in text]
        assert said == [f"writer {n} {k}" for k in range(15)]
    assert stores[0].check() == []
