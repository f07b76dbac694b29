"""Real processes on one database: compactions that race, holders that are killed, turns cut short."""

import random
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from threading import Event

import pytest

from holdfast.core.errors import LeaseLost
from holdfast.sessions import SessionDB
from holdfast.sessions.lease_keeper import LEASE_SECONDS
from holdfast.sessions.leases import compression_lock
from tests.sessions.databases import Database
from tests.sessions.workers.worker_process import Worker

pytestmark = pytest.mark.slow

PROCESSES = 6
ROUNDS = 8


@contextmanager
def crew(database: Database, scene: str, size: int = PROCESSES) -> Iterator[list[Worker]]:
    """Workers that have opened the store and stand at the gate."""
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(scene, database.url, name=f"p{number}")) for number in range(size)
        ]
        for worker in workers:
            assert worker.next() == "ready"
        yield workers
        for worker in workers:
            worker.tell(None)
            worker.end()


def a_session(db: SessionDB, session: str, messages: int = 5) -> None:
    db.create_session(session, source="test")
    db.sessions.append_messages(
        session, [{"role": "user", "content": f"message {at}"} for at in range(messages)]
    )


@pytest.mark.clause("C1", "C2")
def test_processes_that_compact_one_session_at_once_end_with_one_child(database: Database) -> None:
    db = database.open()
    with crew(database, "compact") as workers:
        for number in range(ROUNDS):
            session = f"session {number}"
            a_session(db, session)
            before = db.get_messages(session)
            for worker in workers:
                worker.tell(session)
            said = [worker.next() for worker in workers]
            movers = [each for each in said if each["moved_to"] is not None]
            assert len(movers) == 1
            assert sum(each["summaries"] for each in said) == 1
            assert all(each["unchanged"] for each in said)
            assert db.children(session) == [movers[0]["moved_to"]]
            assert db.get_compression_lock_holder(session) is None
            assert db.get_messages(session) == before
            parent = db.get_session(session)
            assert parent is not None
            assert parent.end_reason == "compression"


@pytest.mark.clause("C5")
def test_processes_that_rotate_without_a_lock_end_with_one_child_that_all_adopt(
    database: Database,
) -> None:
    db = database.open()
    with crew(database, "rotate_unlocked") as workers:
        for number in range(ROUNDS):
            session = f"session {number}"
            a_session(db, session)
            for worker in workers:
                worker.tell(session)
            said = [worker.next() for worker in workers]
            (child,) = [each["moved_to"] for each in said if "moved_to" in each]
            assert [each["adopted"] for each in said if "adopted" in each] == [child] * (PROCESSES - 1)
            assert db.children(session) == [child]
            assert len(db.get_messages(child)) == 6


@pytest.mark.clause("C3")
def test_the_lock_of_a_killed_process_is_free_15_seconds_later_and_not_before(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "s")
    with Worker("hold", database.url, session="s", name="first") as holder:
        assert holder.next() is True
        holder.kill()
    assert db.get_compression_lock_holder("s") == "first"
    database.clock.advance(LEASE_SECONDS - 1)
    assert not db.try_acquire_compression_lock("s", "second")
    database.clock.advance(1)
    assert db.get_compression_lock_holder("s") is None
    assert db.try_acquire_compression_lock("s", "second")
    lease = db.leases.current(compression_lock("s"))
    assert lease is not None
    assert lease.token == 2
    assert db.rotate("s", "child", [], carry_from=0, holder="second").carried == 5


@pytest.mark.clause("C3")
def test_a_process_that_stood_still_and_lost_its_lock_cannot_rotate_any_more(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "s")
    with Worker("hold", database.url, session="s", name="first") as holder:
        assert holder.next() is True
        holder.signal(signal.SIGSTOP)
        database.clock.advance(LEASE_SECONDS)
        assert db.try_acquire_compression_lock("s", "second")
        holder.signal(signal.SIGCONT)
        holder.tell("rotate")
        assert holder.next() == "lost"
    assert db.children("s") == []
    assert db.get_compression_lock_holder("s") == "second"
    assert db.rotate("s", "child", [], carry_from=0, holder="second").carried == 5
    with pytest.raises(LeaseLost):
        db.rotate("s", "other", [], carry_from=0, holder="first")


@pytest.mark.slow
@pytest.mark.clause("C3")
def test_in_real_time_a_living_holder_keeps_its_lock_and_a_killed_one_frees_it(
    live_url: str,
) -> None:
    with (
        SessionDB.open(live_url) as db,
        Worker("hold", live_url, session="kept", name="living", real_time=True) as living,
        Worker("hold", live_url, session="freed", name="dead", real_time=True) as dead,
    ):
        a_session(db, "kept")
        assert living.next() is True
        assert dead.next() is True
        dead.kill()
        killed = time.monotonic()
        never = Event()
        while not db.try_acquire_compression_lock("freed", "next"):
            assert time.monotonic() < killed + 2 * LEASE_SECONDS
            never.wait(0.05)
        # The lease was up to a quarter of its life old; a poll and a slow machine come on top.
        assert LEASE_SECONDS * 0.7 < time.monotonic() - killed < LEASE_SECONDS + 2
        while time.monotonic() < killed + LEASE_SECONDS * 1.4:
            assert db.get_compression_lock_holder("kept") == "living"
            never.wait(0.2)
        living.tell("rotate")
        assert living.next() == "rotated"


@pytest.mark.clause("C6")
def test_a_kill_in_mid_rotation_leaves_the_parent_open_or_one_whole_child(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "root", messages=8)
    words = [db.inbox.put("root", {"role": "user", "content": f"word {at}"}).id for at in range(3)]
    db.turns.open("root", {"role": "user", "content": "question"}, turn_id="turn")
    opening = 20
    for life in range(12):
        with Worker(
            "rotate_for_ever", database.url, session="root", name=f"life {life}", opening=opening
        ) as rotator:
            rotator.wait_for(random.randint(1, 6))
            acknowledged = rotator.kill(within=0.01)
        line = db.sessions.lineage("root")
        assert acknowledged == [child for child in line if child in acknowledged]
        for parent, child in pairwise(line):
            assert db.children(parent) == [child]
            opened = db.get_messages(child)[:opening]
            assert [each.get("content") for each in opened] == [f"{child} {at}" for at in range(opening)]
            carried = [each.message for each in db.sessions.read(child) if each.carried]
            assert carried == db.get_messages(parent)[-5:]
        end = db.sessions.live_end("root")
        assert db.children(end) == []
        assert [each.id for each in db.inbox.waiting(end)] == words
        assert [each.id for each in db.turns.unfinished()] == ["turn"]
        assert db.turns.append("turn", [{"role": "assistant", "content": "still here"}])
    assert db.check() == []


@pytest.mark.clause("C7")
def test_what_another_process_appends_while_the_summary_is_written_is_carried_in_order(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "root")
    times = 10
    with (
        Worker("append_for_ever", database.url, session="root", name="writer") as writer,
        Worker("rotate_now_and_then", database.url, session="root", name="r", times=times) as rotator,
    ):
        for _ in range(times):
            looked = rotator.next()
            late = random.randint(1, 10)
            while len(db.sessions.read(looked["parent"], start=looked["from"])) < late:
                writer.hear()
            rotator.tell("go")
            said = rotator.next()
            parent = db.sessions.read(said["parent"], start=said["from"])
            assert len(parent) >= late
            child = db.sessions.read(said["child"], limit=len(parent))
            assert [each.message for each in child] == [each.message for each in parent]
            assert all(each.carried for each in child)
        rotator.end()
        acknowledged = writer.kill()
    spoken = [
        each.message.get("content")
        for session in db.sessions.lineage("root")
        for each in db.sessions.read(session)
        if not each.carried and str(each.message.get("content")).startswith("writer")
    ]
    assert len(acknowledged) <= len(spoken) <= len(acknowledged) + 1
    assert spoken == [f"writer {number}" for number in range(len(spoken))]


@pytest.mark.clause("D1")
def test_a_turn_said_to_be_complete_survives_a_kill_together_with_what_is_owed(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "s", messages=0)
    for life in range(5):
        turn = f"turn {life}"
        with Worker(
            "complete_turn", database.url, session="s", turn=turn, providers=["alpha", "beta"]
        ) as worker:
            worker.wait_for(2)
            worker.kill()
        stored = db.turns.get(turn)
        assert stored is not None
        assert (stored.state, stored.generation) == ("completed", life + 1)
        assert [each.get("content") for each in db.turns.messages(turn)] == [
            f"question {turn}",
            f"answer {turn}",
        ]
        owed = {each.provider for each in db.outbox.list("owed") if each.turn_id == turn}
        assert owed == {"alpha", "beta"}
    delivered = [each.turn_id for each in db.outbox.claim("alpha", lease_seconds=60, limit=9)]
    assert delivered == [f"turn {life}" for life in range(5)]


@pytest.mark.clause("D10")
def test_a_message_said_to_be_taken_by_a_turn_survives_a_kill_in_mid_turn(
    database: Database,
) -> None:
    db = database.open()
    a_session(db, "s", messages=0)
    for life in range(5):
        turn = f"turn {life}"
        with Worker("open_turn", database.url, session="s", turn=turn) as worker:
            worker.wait_for(2)
            inbox_id, _ = worker.kill()
        assert [each.id for each in db.turns.unfinished()] == [turn]
        assert db.turns.messages(turn) == [{"role": "user", "content": f"question {turn}"}]
        word = db.inbox.get(inbox_id)
        assert word is not None
        assert (word.state, word.turn_id) == ("taken", turn)
        db.turns.interrupt(turn, "its process was killed")
    assert len(db.get_messages("s")) == 5
