"""Requests for the operations of schedules, choices and chats, each with what must stand before."""

from typing import Any

from holdfast.sessions.chat_events import account_lease
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.schedules import NewSchedule, Schedule, ScheduledRun
from tests.sessions.chat_fixtures import chat_message, received_chat, turn_of_chat
from tests.sessions.prepared_store import Ask, Prepared


def scheduled(prepared: Prepared, **how: Any) -> Schedule:  # noqa: ANN401
    return prepared.db.schedules.add(NewSchedule("look", "every 2 hours", "UTC", "s", **how))


def add_schedule(_: Prepared) -> Ask:
    return lambda db: db.schedules.add(NewSchedule("look", "every weekday at 8", "Europe/Berlin", "s"))


def pause_schedule(prepared: Prepared) -> Ask:
    schedule = scheduled(prepared)
    prepared.db.schedules.run_now(schedule.id)
    return lambda db: db.schedules.pause(schedule.id)


def resume_schedule(prepared: Prepared) -> Ask:
    schedule = scheduled(prepared)
    prepared.db.schedules.pause(schedule.id)
    return lambda db: db.schedules.resume(schedule.id)


def remove_schedule(prepared: Prepared) -> Ask:
    schedule = scheduled(prepared)
    prepared.db.schedules.run_now(schedule.id)
    return lambda db: db.schedules.remove(schedule.id)


def run_schedule(prepared: Prepared) -> Ask:
    schedule = scheduled(prepared)
    return lambda db: db.schedules.run_now(schedule.id)


def plan_runs(prepared: Prepared) -> Ask:
    schedule = scheduled(prepared)
    assert schedule.next_due is not None
    planned = schedule.times.plan(schedule.next_due, schedule.next_due, "once")
    return lambda db: db.schedules.plan(schedule, planned)


def claim_scheduled_run(prepared: Prepared) -> Ask:
    prepared.db.schedules.run_now(scheduled(prepared).id)
    return lambda db: db.schedules.claim(lease_seconds=10)


def claimed_run(prepared: Prepared, **how: Any) -> ScheduledRun:  # noqa: ANN401
    prepared.db.schedules.run_now(scheduled(prepared, **how).id)
    claimed = prepared.db.schedules.claim(lease_seconds=10)
    assert claimed is not None
    return claimed[1]


def mark_run_sent(prepared: Prepared) -> Ask:
    run, inbox_id = claimed_run(prepared), prepared.waits()
    return lambda db: db.schedules.mark_sent(run, inbox_id)


def fail_run(prepared: Prepared) -> Ask:
    run = claimed_run(prepared, room="lobby")
    return lambda db: db.schedules.fail(run, "no such session")


def settle_runs(prepared: Prepared) -> Ask:
    run, inbox_id = claimed_run(prepared, room="lobby"), prepared.waits()
    prepared.db.schedules.mark_sent(run, inbox_id)
    prepared.db.inbox.withdraw(inbox_id)
    return lambda db: db.schedules.settle()


def settle_run_delivery(prepared: Prepared) -> Ask:
    run = claimed_run(prepared, room="lobby")
    prepared.db.schedules.fail(run, "no such session")
    return lambda db: db.schedules.settle_delivery(run.id, "sent")


def chosen(prepared: Prepared, ask: Ask) -> Ask:
    prepared.db.choices.choose("s", model="one", folder="garden")
    prepared.db.choices.put_prompt("review", "look at it")
    return ask


def receive_chat(prepared: Prepared) -> Ask:
    lease = prepared.held(account_lease("a"))
    return lambda db: db.chat_events.receive("a", [chat_message("1")], {"": "7"}, lease=lease)


def join_chat(prepared: Prepared) -> Ask:
    lease = received_chat(prepared.db, "1", "2")
    return lambda db: db.chat_events.join([1, 2], lease=lease)


def settle_chat(prepared: Prepared) -> Ask:
    lease = received_chat(prepared.db, "1", "2")
    prepared.db.chat_events.join([1, 2], lease=lease)
    return lambda db: db.chat_events.settle(2, "accepted", session_id="s", lease=lease)


def pass_over_chat(prepared: Prepared) -> Ask:
    lease = received_chat(prepared.db, "1", "2", "3")
    first, _, last = prepared.db.chat_events.new("a")
    prepared.db.chat_events.pass_over(first, "idle talk", keep=1, lease=lease)
    return lambda db: db.chat_events.pass_over(last, "idle talk", keep=1, lease=lease)


def assign_chat(prepared: Prepared) -> Ask:
    lease = received_chat(prepared.db, "1")
    return lambda db: db.chat_events.assign(1, "s", lease=lease)


def put_notice(prepared: Prepared) -> Ask:
    received_chat(prepared.db, "1")
    return lambda db: db.chat_posts.put(NewPost("n", 1, {"text": "hello"}))


def open_answer(prepared: Prepared) -> Ask:
    turn_of_chat(prepared.db, received_chat(prepared.db, "1"))
    return lambda db: db.chat_posts.open("t", "s")


def plan_notice(prepared: Prepared) -> Ask:
    put_notice(prepared)(prepared.db)
    lease = prepared.held(account_lease("b"))
    return lambda db: db.chat_posts.plan(1, [{"text": "a"}, {"text": "b"}], lease=lease)


def planned_notice(prepared: Prepared) -> HeldLease:
    plan_notice(prepared)(prepared.db)
    return prepared.held(account_lease("c"))


def move_notice(prepared: Prepared) -> Ask:
    lease = planned_notice(prepared)
    return lambda db: db.chat_posts.move_part(1, 0, ("new", "sending"), lease=lease)


def defer_notice(prepared: Prepared) -> Ask:
    lease = planned_notice(prepared)
    return lambda db: db.chat_posts.defer(1, 5.0, "later", counted=True, lease=lease)


def settle_notice(prepared: Prepared) -> Ask:
    lease = planned_notice(prepared)
    return lambda db: db.chat_posts.settle(1, "failed", "gone", lease=lease)


def retry_notice(prepared: Prepared) -> Ask:
    settle_notice(prepared)(prepared.db)
    return lambda db: db.chat_posts.retry(1)


def drop_notice(prepared: Prepared) -> Ask:
    settle_notice(prepared)(prepared.db)
    return lambda db: db.chat_posts.drop(1)


def remove_person(prepared: Prepared) -> Ask:
    prepared.db.chat_people.put("a", "p1", "user")
    return lambda db: db.chat_people.remove("a", "p1")


def approve_person(prepared: Prepared) -> Ask:
    prepared.db.chat_people.pair("a", "p1", "Ada", "CODE")
    return lambda db: db.chat_people.approve("CODE", "guest")
