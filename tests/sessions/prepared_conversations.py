"""Requests for the operations of conversations, turns and memory, each with what must stand before."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.sessions.contract import Operation, SessionStart
from holdfast.sessions.conversation_operations import (
    begin_conversation,
    release_if_idle,
    send_message,
)
from holdfast.sessions.forgettings import ForgettingTask
from holdfast.sessions.turn_operations import (
    TurnAccount,
    TurnCompletion,
    join_turn,
)
from holdfast.sessions.usage import UsageEntry
from tests.sessions.prepared_store import Ask, Prepared, on_a_loop
from tests.sessions.store_fixtures import assistant, claim_for_the_dead, claim_one, completed_turn, user


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


def free_it(prepared: Prepared) -> Ask:
    prepared.owes()
    claim_for_the_dead(prepared.db)
    return lambda db: db.outbox.free_dead_claims("p")


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


def withhold_asks(prepared: Prepared) -> Ask:
    prepared.asks()
    [turn] = prepared.db.turns.unfinished()
    return lambda db: db.asks.withhold(turn.id)


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
