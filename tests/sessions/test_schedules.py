"""Schedules in the store, on either engine: what is due runs once, and a run's delivery is apart from it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, ScheduleNotFound, SessionNotFound, WrongScheduleState
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.schedules import KEPT_RUNS, NewSchedule, Schedule, ScheduledRun
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, user

HOUR = 3600
LEASE = 20


def add(db: SessionDB, rule: str = "every hour", **how: Any) -> Schedule:  # noqa: ANN401
    return db.schedules.add(NewSchedule("look at the harbour", rule, "UTC", **how))


def plan_all(db: SessionDB) -> None:
    """Record the runs of all that is due, as the runner does."""
    while (schedule := db.schedules.due()) is not None:
        assert schedule.next_due is not None
        now = db.schedules.work().now
        assert db.schedules.plan(schedule, schedule.times.plan(schedule.next_due, now, schedule.missed))


def claim(db: SessionDB) -> ScheduledRun:
    claimed = db.schedules.claim(lease_seconds=LEASE)
    assert claimed is not None
    return claimed[1]


def send(db: SessionDB, run: ScheduledRun, session_id: str = "s") -> int:
    if db.get_session(session_id) is None:
        db.create_session(session_id, source="test")
    message = db.inbox.put(session_id, user("look"), key=run.key)
    db.schedules.mark_sent(run, message.id)
    return message.id


def states(db: SessionDB, schedule: Schedule) -> list[str]:
    return [run.state for run in reversed(db.schedules.runs(schedule.id))]


def test_a_schedule_is_kept_as_it_was_given_with_the_time_it_is_due(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    added = db.schedules.add(
        NewSchedule("look", "Every  2 Hours", "Europe/Berlin", "s", "skip", "lobby", "anna", "cli")
    )
    assert db.schedules.get(added.id) == added
    assert db.schedules.all() == db.schedules.all("anna") == [added]
    assert db.schedules.all("ben") == []
    assert (added.rule, added.zone, added.session_id, added.room) == (
        "every 2 hours",
        "Europe/Berlin",
        "s",
        "lobby",
    )
    assert not added.has_own_session
    assert added.next_due == added.created + 2 * HOUR * SECOND


def test_a_schedule_without_a_session_gets_one_of_its_own(db: SessionDB) -> None:
    first, second = add(db), add(db)
    assert first.has_own_session
    assert first.session_id != second.session_id


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"text": " "}, "what to do"),
        ({"text": "\x00"}, "what to do"),
        ({"rule": "sometimes"}, "no time that is understood"),
        ({"rule": "at 2001-01-01 08:00"}, "has passed"),
        ({"rule": "0 0 31 2,4 *"}, "cron"),
        ({"zone": "Mars/Base"}, "no time zone"),
        ({"missed": "maybe"}, "missed is one of"),
        ({"room": ""}, "a room"),
    ],
)
def test_what_can_not_be_scheduled_is_refused_and_nothing_is_stored(
    db: SessionDB, how: dict[str, Any], problem: str
) -> None:
    given = {"text": "look", "rule": "every hour", "zone": "UTC", **how}
    with pytest.raises(InvalidInput, match=problem):
        db.schedules.add(NewSchedule(**given))
    assert db.schedules.all() == []


def test_a_session_that_is_not_there_is_refused(db: SessionDB) -> None:
    with pytest.raises(SessionNotFound):
        add(db, session_id="nowhere")


def test_nothing_is_due_before_its_time(db: SessionDB, database: Database) -> None:
    schedule = add(db)
    database.clock.advance(HOUR - 1)
    assert db.schedules.due() is None
    assert db.schedules.work().next_due == schedule.next_due
    database.clock.advance(1)
    assert db.schedules.due() == schedule


def test_a_time_that_has_come_is_one_run_and_the_next_time_follows(db: SessionDB, database: Database) -> None:
    schedule = add(db)
    database.clock.advance(HOUR)
    plan_all(db)
    [run] = db.schedules.runs(schedule.id)
    assert (run.due, run.state, run.missed) == (schedule.next_due, "due", 0)
    moved = db.schedules.get(schedule.id)
    assert moved is not None
    assert moved.next_due == run.due + HOUR * SECOND


def test_a_one_time_schedule_is_never_due_again(db: SessionDB, database: Database) -> None:
    schedule = add(db, "in 20 minutes")
    database.clock.advance(HOUR)
    plan_all(db)
    assert states(db, schedule) == ["due"]
    over = db.schedules.get(schedule.id)
    assert over is not None
    assert over.next_due is None


@pytest.mark.parametrize(
    ("policy", "runs"),
    [("once", [("due", 4)]), ("all", [("due", 0)] * 5), ("skip", [("skipped", 4)])],
)
def test_missed_runs_are_made_up_for_as_the_policy_says(
    db: SessionDB, database: Database, policy: str, runs: list[tuple[str, int]]
) -> None:
    schedule = add(db, missed=policy)
    database.clock.advance(5.5 * HOUR)
    plan_all(db)
    found = list(reversed(db.schedules.runs(schedule.id)))
    assert [(run.state, run.missed) for run in found] == runs
    assert found[-1].due == schedule.created + 5 * HOUR * SECOND


def test_with_skip_a_run_that_is_a_moment_late_still_runs(db: SessionDB, database: Database) -> None:
    schedule = add(db, missed="skip")
    database.clock.advance(3 * HOUR + 30)
    plan_all(db)
    found = list(reversed(db.schedules.runs(schedule.id)))
    assert [(run.state, run.missed) for run in found] == [("skipped", 1), ("due", 0)]


def test_only_one_process_moves_a_schedule_on(db: SessionDB, database: Database) -> None:
    schedule = add(db)
    database.clock.advance(HOUR)
    assert schedule.next_due is not None
    planned = schedule.times.plan(schedule.next_due, schedule.next_due, "once")
    assert db.schedules.plan(schedule, planned)
    assert not database.open().schedules.plan(schedule, planned)
    assert states(db, schedule) == ["due"]


def test_many_threads_of_many_processes_give_each_run_to_one(database: Database) -> None:
    stores = [database.open() for _ in range(4)]
    for _ in range(5):
        add(stores[0], missed="all")
    database.clock.advance(HOUR)

    def work(db: SessionDB) -> list[int]:
        taken = []
        while (schedule := db.schedules.due()) is not None:
            assert schedule.next_due is not None
            db.schedules.plan(schedule, schedule.times.plan(schedule.next_due, schedule.next_due, "all"))
        while (claimed := db.schedules.claim(lease_seconds=LEASE)) is not None:
            taken.append(claimed[1].id)
        return taken

    with ThreadPoolExecutor(len(stores)) as threads:
        taken = [each for found in threads.map(work, stores) for each in found]
    while (claimed := stores[0].schedules.claim(lease_seconds=LEASE)) is not None:
        taken.append(claimed[1].id)  # a claim that met another one gives up
    assert len(taken) == len(set(taken)) == 5


def test_a_claim_that_was_not_marked_in_time_is_claimed_again_with_the_same_key(
    db: SessionDB, database: Database
) -> None:
    schedule = add(db)
    db.schedules.run_now(schedule.id)
    first = claim(db)
    assert db.schedules.claim(lease_seconds=LEASE) is None
    database.clock.advance(LEASE)
    again = claim(database.open())
    assert (again.id, again.key) == (first.id, first.key)
    # Both send; the inbox has one message.
    assert send(db, first) == send(db, again)
    assert len(db.inbox.waiting("s")) == 1
    assert db.schedules.claim(lease_seconds=LEASE) is None


def test_the_runs_of_a_schedule_are_sent_in_order(db: SessionDB, database: Database) -> None:
    add(db, missed="all")
    database.clock.advance(2 * HOUR)
    plan_all(db)
    first = claim(db)
    assert db.schedules.claim(lease_seconds=LEASE) is None, "the first is not sent yet"
    send(db, first)
    assert claim(db).due == first.due + HOUR * SECOND


def test_a_run_fails_when_its_message_is_withdrawn_or_its_conversation_deleted(db: SessionDB) -> None:
    for session_id, lose in (("a", "withdraw"), ("b", "delete")):
        schedule = add(db)
        db.schedules.run_now(schedule.id)
        inbox_id = send(db, claim(db), session_id)
        assert db.schedules.work().ended == 0
        if lose == "withdraw":
            db.inbox.withdraw(inbox_id)
        else:
            db.delete_session(session_id, force=True)
        assert db.schedules.work().ended == 1
        assert db.schedules.settle() == 1
        [run] = db.schedules.runs(schedule.id)
        assert run.state == "failed"
        assert ("withdrawn" if lose == "withdraw" else "deleted") in run.error


def test_a_paused_schedule_is_not_due_and_goes_on_from_its_next_time(
    db: SessionDB, database: Database
) -> None:
    schedule = add(db)
    database.clock.advance(HOUR)
    plan_all(db)
    db.schedules.pause(schedule.id)
    assert states(db, schedule) == ["skipped"]
    database.clock.advance(3 * HOUR + 60)
    assert db.schedules.due() is None
    resumed = db.schedules.resume(schedule.id)
    assert resumed.next_due == schedule.created + 5 * HOUR * SECOND
    assert db.schedules.due() is None


def test_pause_and_resume_refuse_what_does_not_fit(db: SessionDB, database: Database) -> None:
    schedule = add(db, "in 1 hour")
    with pytest.raises(WrongScheduleState, match="can't be resumed"):
        db.schedules.resume(schedule.id)
    db.schedules.pause(schedule.id)
    with pytest.raises(WrongScheduleState, match="is paused"):
        db.schedules.pause(schedule.id)
    database.clock.advance(2 * HOUR)
    with pytest.raises(InvalidInput, match="has passed"):
        db.schedules.resume(schedule.id)
    for change in (db.schedules.pause, db.schedules.resume, db.schedules.remove, db.schedules.run_now):
        with pytest.raises(ScheduleNotFound):
            change(99)


def test_a_run_by_hand_leaves_the_times_alone_and_works_while_paused(db: SessionDB) -> None:
    schedule = add(db)
    db.schedules.pause(schedule.id)
    run = db.schedules.run_now(schedule.id)
    assert claim(db).id == run.id
    found = db.schedules.get(schedule.id)
    assert found is not None
    assert (found.state, found.next_due) == ("paused", schedule.next_due)


def test_what_is_removed_is_gone_but_a_run_under_way_ends_and_is_delivered(db: SessionDB) -> None:
    idle, busy = add(db), add(db, room="lobby")
    for schedule in (idle, busy):
        db.schedules.run_now(schedule.id)
    runs = [claim(db), claim(db)]
    underway = next(run for run in runs if run.schedule_id == busy.id)
    db.schedules.fail(next(run for run in runs if run is not underway), "no")
    inbox_id = send(db, underway)
    for schedule in (idle, busy):
        db.schedules.remove(schedule.id)
    assert db.schedules.all() == []
    assert db.schedules.runs(idle.id) == []
    db.inbox.withdraw(inbox_id)
    assert db.schedules.settle() == 1
    [owed] = db.schedules.to_deliver()
    assert owed.id == underway.id
    assert db.schedules.settle_delivery(owed.id, "sent")
    assert not db.schedules.settle_delivery(owed.id, "failed")
    assert db.schedules.runs(busy.id) == []


def test_a_run_that_can_not_be_sent_is_told_to_its_chat(db: SessionDB) -> None:
    schedule = add(db, room="lobby")
    db.schedules.run_now(schedule.id)
    run = claim(db)
    assert db.schedules.fail(run, "there is no session 's'\x00")
    assert not db.schedules.fail(run, "again")
    [owed] = db.schedules.to_deliver()
    assert (owed.state, owed.delivery, owed.room) == ("failed", "due", "lobby")
    assert owed.error == "there is no session 's'\ufffd"
    assert db.schedules.settle_delivery(owed.id, "failed", "the chat is gone")
    [told] = db.schedules.runs(schedule.id)
    assert (told.state, told.delivery, told.delivery_error) == ("failed", "failed", "the chat is gone")
    assert db.schedules.to_deliver() == []


def test_only_the_newest_runs_stay_on_record(db: SessionDB, database: Database) -> None:
    schedule = add(db, "every minute", missed="skip")
    for _ in range(KEPT_RUNS + 5):
        database.clock.advance(125)
        plan_all(db)
        while (claimed := db.schedules.claim(lease_seconds=LEASE)) is not None:
            db.schedules.fail(claimed[1], "no")
    assert len(db.schedules.runs(schedule.id, limit=1000)) <= KEPT_RUNS + 2
    assert db.check() == []


def test_a_completed_turn_ends_its_run_as_done_and_a_failed_one_as_failed(db: SessionDB) -> None:
    for ending, state, error in (("complete", "done", ""), ("interrupt", "failed", "enough")):
        schedule = add(db, room="lobby")
        db.schedules.run_now(schedule.id)
        inbox_id = send(db, claim(db))
        turn = take(db, inbox_id)
        assert db.schedules.settle() == 0, "its turn runs"
        if ending == "complete":
            db.turns.complete(turn, assistant("the harbour is calm"))
        else:
            db.turns.interrupt(turn, "enough")
        assert db.schedules.settle() == 1
        assert db.schedules.settle() == 0
        [run] = db.schedules.runs(schedule.id)
        assert (run.state, run.turn_id, run.error, run.delivery) == (state, turn, error, "due")


def take(db: SessionDB, inbox_id: int) -> str:
    return db.turns.open("s", take=inbox_id).id
