"""A process that dies at any named operation of the store leaves all of it or nothing, on either engine.

The store is asked as production asks it: from an event loop by `SessionDB.run` where the host and the agent
do so, else by the methods of its parts. The tables are compared as a whole.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import pytest

from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.contract import Engine, Operation, SessionStart, Transaction
from holdfast.sessions.conversation_list import name_conversation
from holdfast.sessions.conversation_operations import (
    begin_conversation,
    claim_conversation,
    release_conversation,
    release_if_idle,
    send_message,
)
from holdfast.sessions.forgettings import ForgettingTask
from holdfast.sessions.held_lease import HeldLease
from holdfast.sessions.operations import OPERATIONS
from holdfast.sessions.schedules import NewSchedule, Schedule, ScheduledRun
from holdfast.sessions.transcripts import create_session
from holdfast.sessions.turn_operations import (
    TurnAccount,
    TurnCompletion,
    append_to_turn,
    complete_turn,
    complete_unless_steered,
    end_turn,
    join_turn,
    open_turn,
    resume_turn,
    save_partial,
    take_next,
)
from holdfast.sessions.usage import UsageEntry
from holdfast.testing import CrashingEngine, ProcessDied
from holdfast.testing.faults import EngineProxy, Moment
from tests.sessions.chat_fixtures import chat_message, received_chat, turn_of_chat
from tests.sessions.databases import Database
from tests.sessions.file_change_fixtures import record_change, settle_change, undo_change
from tests.sessions.store_fixtures import LONG, assistant, chosen, claim_one, completed_turn, hold_lease, user

T = TypeVar("T")
Tables = dict[str, list[str]]
Ask = Callable[[SessionDB], object]

TABLES = (
    *("sessions", "turns", "messages", "inbox", "asks", "outbox", "leases", "deletions"),
    "conversation_settings",
    *("forgettings", "forgetting_tasks", "forgotten_turns"),
    *("schedules", "schedule_runs"),
    *("conversation_choices", "folders", "own_prompts"),
    *("file_changes", "model_usage"),
    *(
        "chat_rooms",
        "chat_cursors",
        "chat_events",
        "chat_posts",
        "chat_parts",
        "chat_people",
        "chat_pairings",
    ),
)
POOL = DaemonPool("store", workers=1, backlog=10)


def tables(tx: Transaction) -> Tables:
    return {
        table: sorted(repr(tuple(row)) for row in tx.connection.execute(f"select * from {table}"))  # noqa: S608
        for table in TABLES
    }


class LastWritten(EngineProxy):
    """Keeps what the tables held at the end of the last write, as its own transaction saw them."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.tables: Tables = {}

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        def watched(tx: Transaction) -> T:
            result = work(tx)
            self.tables = tables(tx)
            return result

        return watched


def on_a_loop(operation: Callable[..., Operation[Any]], *args: object, **kwargs: object) -> Ask:
    return lambda db: asyncio.run(db.run(POOL, operation, *args, **kwargs))


class Prepared:
    """A store with one session, as each operation wants to find it."""

    def __init__(self, db: SessionDB) -> None:
        self.db = db
        db.create_session("s", source="cli")

    def waits(self, **how: Any) -> int:  # noqa: ANN401
        return self.db.inbox.put("s", user("waits"), **how).id

    def runs(self) -> str:
        return self.db.turns.open("s", user("runs"), turn_id="t").id

    def held(self, name: str = "session:s") -> HeldLease:
        return hold_lease(self.db, name, "me", ttl_seconds=600)

    def asks(self) -> HeldLease:
        self.runs()
        lease = self.held()
        self.db.asks.put("a", "t", {"type": "question"}, lease=lease)
        return lease

    def answered(self) -> None:
        lease = self.asks()
        assert self.db.asks.answer("a", "blue", lease_name=lease.name)

    def owes(self) -> None:
        completed_turn(self.db, "s", providers=["p"])

    def set_aside(self) -> int:
        self.owes()
        delivery = claim_one(self.db)
        self.db.outbox.set_aside(delivery, error="no")
        return delivery.id


def begin_it(_: Prepared) -> Ask:
    session = SessionStart("new", "cli", "a title")
    how = {"history": [user("before"), assistant("yes")], "key": "k", "holder": "me", "lease_seconds": 9.0}
    return on_a_loop(begin_conversation, session, user("hello"), **how)


def interrupt_it(prepared: Prepared) -> Ask:
    prepared.runs()
    return on_a_loop(send_message, "s", user("stop"), "interrupt", "k")


def release_it(prepared: Prepared) -> Ask:
    lease = prepared.held()
    return on_a_loop(release_if_idle, "s", lease, parked=0, recovers=True, completed=["s"])


def rotate_it(prepared: Prepared) -> Ask:
    prepared.runs()
    prepared.waits()
    return lambda db: db.rotate("s", "child", [user("summary")], carry_from=0)


def delete_it(prepared: Prepared) -> Ask:
    prepared.owes()
    prepared.waits()
    return lambda db: db.delete_session("s", force=True)


def import_it(prepared: Prepared) -> Ask:
    prepared.owes()
    lines = prepared.db.export_session("s")
    prepared.db.delete_session("s", force=True)
    return lambda db: db.import_session(lines)


def complete_it(operation: Callable[..., Operation[Any]]) -> Callable[[Prepared], Ask]:
    ending = TurnCompletion(
        assistant("done"),
        ["p", "q"],
        account=TurnAccount("{}", [UsageEntry("turn", "m", cost=Decimal("0.01"))]),
    )
    return lambda prepared: on_a_loop(operation, prepared.runs(), ending, lease=prepared.held())


def settle_it(prepared: Prepared) -> Ask:
    prepared.answered()
    prepared.db.turns.interrupt("t", "enough")
    return lambda db: db.asks.settle("t", lambda asks, _: [user(str(ask.answer)) for ask in asks])


def claim_it(prepared: Prepared) -> Ask:
    prepared.owes()
    prepared.owes()
    return lambda db: db.outbox.claim("p", lease_seconds=60, limit=5)


def extend_it(prepared: Prepared) -> Ask:
    prepared.owes()
    delivery = claim_one(prepared.db)
    return lambda db: db.outbox.extend(delivery, lease_seconds=600)


def deliver_it(prepared: Prepared) -> Ask:
    prepared.owes()
    delivery = claim_one(prepared.db)
    return lambda db: db.outbox.mark_delivered(delivery)


def return_it(prepared: Prepared) -> Ask:
    prepared.owes()
    delivery = claim_one(prepared.db)
    return lambda db: db.outbox.defer(delivery, delay_seconds=5, error="later")


def enqueue_it(prepared: Prepared) -> Ask:
    turn = completed_turn(prepared.db, "s")
    return lambda db: db.outbox.enqueue(turn.id, "p")


def renew_it(prepared: Prepared) -> Ask:
    lease = prepared.db.leases.acquire("name", "me", ttl_seconds=10)
    assert lease is not None
    return lambda db: db.leases.renew(lease, ttl_seconds=100)


def let_go_of_it(prepared: Prepared) -> Ask:
    lease = prepared.held("name")
    return lambda db: db.leases.let_go(lease)


def commit_it(prepared: Prepared) -> Ask:
    prepared.owes()
    return lambda db: db.sessions.mark_committed("s", 1)


def branch_it(prepared: Prepared) -> Ask:
    prepared.owes()
    return lambda db: db.conversations.branch("s", "branch", before=0, forget_in=("p",))


def edit_it(prepared: Prepared) -> Ask:
    prepared.runs()
    inbox_id = prepared.waits()
    return lambda db: db.inbox.edit(inbox_id, user("changed"), mode="interrupt")


def withdraw_it(prepared: Prepared) -> Ask:
    inbox_id = prepared.waits()
    return lambda db: db.inbox.withdraw(inbox_id)


def put_ask(prepared: Prepared) -> Ask:
    turn_id, lease = prepared.runs(), prepared.held()
    return lambda db: db.asks.put("a", turn_id, {"type": "question"}, lease=lease)


def answer_it(prepared: Prepared) -> Ask:
    lease = prepared.asks()
    return lambda db: db.asks.answer("a", "blue", lease_name=lease.name, key="k")


def close_ask(prepared: Prepared) -> Ask:
    prepared.asks()
    return lambda db: db.asks.close("a")


def steered(prepared: Prepared) -> Ask:
    turn_id, steer = prepared.runs(), prepared.waits(mode="steer")
    return on_a_loop(join_turn, turn_id, steer, lease=prepared.held())


def retry_it(prepared: Prepared) -> Ask:
    delivery_id = prepared.set_aside()
    return lambda db: db.outbox.retry(delivery_id)


def drop_it(prepared: Prepared) -> Ask:
    delivery_id = prepared.set_aside()
    return lambda db: db.outbox.drop(delivery_id)


def rename_it(prepared: Prepared) -> Ask:
    prepared.owes()
    return lambda db: db.outbox.rename_provider("p", "q")


def forget_it(prepared: Prepared) -> Ask:
    prepared.owes()
    turns = prepared.db.forgettings.turns_of("s")
    return lambda db: db.forgettings.accept("k", "conversation", turns, {}, providers=["p"])


def take_forgetting(prepared: Prepared) -> Ask:
    ask = forget_it(prepared)
    delivery = claim_one(prepared.db)
    ask(prepared.db)
    prepared.db.outbox.give_back(delivery)
    return lambda db: db.forgettings.next_task("p")


def defer_forgetting(prepared: Prepared) -> Ask:
    task = forgetting_task(prepared)
    return lambda db: db.forgettings.defer(task, "p", delay_seconds=5, note="later")


def settle_forgetting(prepared: Prepared) -> Ask:
    task = forgetting_task(prepared)
    return lambda db: db.forgettings.settle(task, "p", "done", forgotten=1)


def retry_forgetting(prepared: Prepared) -> Ask:
    task = forgetting_task(prepared)
    prepared.db.forgettings.settle(task, "p", "failed", note="no")
    return lambda db: db.forgettings.retry(task.forgetting_id)


def forgetting_task(prepared: Prepared) -> ForgettingTask:
    forget_it(prepared)(prepared.db)
    task = prepared.db.forgettings.next_task("p")
    assert task is not None
    return task


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


EACH: Mapping[str, Callable[[Prepared], Ask]] = {
    "begin_conversation": begin_it,
    "send_message": lambda p: on_a_loop(
        send_message, "s" if p.runs() else "", user("stop"), "interrupt", "k"
    ),
    "claim_conversation": lambda _: on_a_loop(claim_conversation, "s", "me", 10.0),
    "release_if_idle": release_it,
    "release_conversation": lambda p: on_a_loop(release_conversation, "s", p.held()),
    "rotate_session": rotate_it,
    "delete_conversation": delete_it,
    "import_conversation": import_it,
    "change_conversation": lambda _: lambda db: db.conversations.set_title("s", "a title"),
    "name_conversation": lambda _: on_a_loop(name_conversation, "s", "a title", UsageEntry("title", "m", 1)),
    "branch_session": branch_it,
    "create_session": lambda _: on_a_loop(create_session, "new", source="cli"),
    "end_session": lambda _: lambda db: db.sessions.end("s", "cleared"),
    "append_messages": lambda _: lambda db: db.sessions.append_messages("s", [user("one"), user("two")]),
    "mark_committed": commit_it,
    "open_turn": lambda p: on_a_loop(open_turn, "s", "t", user("go"), lease=p.held()),
    "take_next": lambda p: on_a_loop(take_next, "s", "t", p.waits(), lease=p.held()),
    "resume_turn": lambda p: on_a_loop(resume_turn, p.runs(), lease=p.held()),
    "append_to_turn": lambda p: on_a_loop(append_to_turn, p.runs(), [assistant("a"), user("b")]),
    "join_turn": steered,
    "save_partial": lambda p: on_a_loop(save_partial, p.runs(), "half of"),
    "complete_turn": complete_it(complete_turn),
    "complete_unless_steered": complete_it(complete_unless_steered),
    "end_turn": lambda p: on_a_loop(end_turn, p.runs(), "interrupted", "stop", [assistant("half")]),
    "record_turn": lambda _: lambda db: db.turns.record("new", [user("q"), assistant("a")], providers=["p"]),
    "put_message": lambda _: lambda db: db.inbox.put("s", user("one"), key="k"),
    "edit_message": edit_it,
    "withdraw_message": withdraw_it,
    "put_ask": put_ask,
    "answer_ask": answer_it,
    "close_ask": close_ask,
    "settle_asks": settle_it,
    "enqueue_delivery": enqueue_it,
    "claim_deliveries": claim_it,
    "extend_claim": extend_it,
    "mark_delivered": deliver_it,
    "return_delivery": return_it,
    "retry_delivery": retry_it,
    "drop_delivery": drop_it,
    "rename_provider": rename_it,
    "accept_forgetting": forget_it,
    "take_forgetting": take_forgetting,
    "defer_forgetting": defer_forgetting,
    "settle_forgetting": settle_forgetting,
    "retry_forgetting": retry_forgetting,
    "add_schedule": add_schedule,
    "pause_schedule": pause_schedule,
    "resume_schedule": resume_schedule,
    "remove_schedule": remove_schedule,
    "run_schedule": run_schedule,
    "plan_runs": plan_runs,
    "claim_scheduled_run": claim_scheduled_run,
    "mark_run_sent": mark_run_sent,
    "fail_run": fail_run,
    "settle_runs": settle_runs,
    "settle_run_delivery": settle_run_delivery,
    "choose_for_conversation": lambda p: chosen(p.db, lambda db: db.choices.choose("s", workspace="/w")),
    "put_folder": lambda _: lambda db: db.choices.put_folder("garden", "/work"),
    "remove_folder": lambda p: chosen(p.db, lambda db: db.choices.remove_folder("garden")),
    "put_own_prompt": lambda _: lambda db: db.choices.put_prompt("review", "look at it"),
    "remove_own_prompt": lambda p: chosen(p.db, lambda db: db.choices.remove_prompt("review")),
    "record_file_changes": lambda p: record_change(p.runs()),
    "settle_file_changes": lambda p: settle_change(p.db, p.runs()),
    "mark_files_undone": lambda p: undo_change(p.db, p.runs()),
    "record_usage": lambda _: lambda db: db.usage.record("s", [UsageEntry("title", "m")]),
    "receive_chat_events": receive_chat,
    "join_chat_events": join_chat,
    "settle_chat_event": settle_chat,
    "pass_over_chat_event": pass_over_chat,
    "assign_chat_room": assign_chat,
    "put_chat_post": put_notice,
    "open_chat_post": open_answer,
    "plan_chat_post": plan_notice,
    "move_chat_part": move_notice,
    "defer_chat_post": defer_notice,
    "settle_chat_post": settle_notice,
    "retry_chat_post": retry_notice,
    "drop_chat_post": drop_notice,
    "put_chat_person": lambda _: lambda db: db.chat_people.put("a", "p1", "user", name="Ada"),
    "remove_chat_person": remove_person,
    "request_pairing": lambda _: lambda db: db.chat_people.pair("a", "p1", "Ada", "CODE"),
    "approve_pairing": approve_person,
    "acquire_lease": lambda _: lambda db: db.leases.acquire("name", "me", ttl_seconds=10),
    "renew_lease": renew_it,
    "release_lease": let_go_of_it,
}


@pytest.fixture(scope="module", autouse=True)
def threads() -> Iterator[None]:
    yield
    assert POOL.close(LONG) == []


@pytest.mark.clause("D1")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("name", EACH)
def test_a_crash_leaves_all_of_an_operation_or_nothing(database: Database, name: str, moment: Moment) -> None:
    db = database.open()
    ask = EACH[name](Prepared(db))
    found = db._engine.read(tables)  # noqa: SLF001 - a store is built on an engine, and keeps it
    crashing = CrashingEngine(db._engine)  # noqa: SLF001
    last = LastWritten(crashing)
    crashing.arm(moment)
    with pytest.raises(ProcessDied):
        ask(SessionDB.on(last))
    assert crashing.cut_off == {(name, moment)}
    assert last.tables != found, "the operation writes something"
    left = database.open()._engine.read(tables)  # noqa: SLF001
    assert left == (found if moment == "before" else last.tables)
    assert database.open().check() == []


def test_every_operation_of_the_store_is_cut_off() -> None:
    assert list(EACH) == list(OPERATIONS), f"{len(EACH)} of {len(OPERATIONS)} operations are cut off"
