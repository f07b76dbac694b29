"""A process that dies at any named operation of the store leaves all of it or nothing, on either engine.

The store is asked as production asks it: from an event loop by `SessionDB.run` where the host and the agent
do so, else by the methods of its parts. The tables are compared as a whole.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.conversation_list import name_conversation
from holdfast.sessions.conversation_operations import (
    claim_conversation,
    release_conversation,
    send_message,
)
from holdfast.sessions.operations import OPERATIONS
from holdfast.sessions.transcripts import create_session
from holdfast.sessions.turn_operations import (
    append_to_turn,
    complete_turn,
    complete_unless_steered,
    end_turn,
    hand_over_turn,
    open_turn,
    resume_turn,
    save_partial,
    take_next,
)
from holdfast.sessions.usage import UsageEntry
from holdfast.testing import CrashingEngine, ProcessDied
from holdfast.testing.faults import EngineProxy, Moment
from tests.sessions.databases import Database
from tests.sessions.file_change_fixtures import record_change, settle_change, undo_change
from tests.sessions.prepared_accounts import ACCOUNT_OPERATIONS
from tests.sessions.prepared_chats import (
    add_schedule,
    approve_person,
    assign_chat,
    chosen,
    claim_scheduled_run,
    defer_notice,
    drop_notice,
    fail_run,
    join_chat,
    mark_run_sent,
    move_notice,
    open_answer,
    pass_over_chat,
    pause_schedule,
    plan_notice,
    plan_runs,
    put_notice,
    receive_chat,
    remove_person,
    remove_schedule,
    resume_schedule,
    retry_notice,
    run_schedule,
    settle_chat,
    settle_notice,
    settle_run_delivery,
    settle_runs,
)
from tests.sessions.prepared_conversations import (
    answer_it,
    begin_it,
    branch_it,
    claim_it,
    close_ask,
    commit_it,
    complete_it,
    defer_forgetting,
    delete_it,
    deliver_it,
    drop_it,
    edit_it,
    enqueue_it,
    extend_it,
    forget_it,
    free_it,
    import_it,
    let_go_of_it,
    put_ask,
    release_it,
    rename_it,
    renew_it,
    retry_forgetting,
    retry_it,
    return_it,
    rotate_it,
    settle_forgetting,
    settle_it,
    steered,
    take_forgetting,
    withdraw_it,
    withhold_asks,
)
from tests.sessions.prepared_store import POOL, Ask, Prepared, on_a_loop
from tests.sessions.store_fixtures import LONG, assistant, user

T = TypeVar("T")
Tables = dict[str, list[str]]

TABLES = (
    *("sessions", "turns", "messages", "inbox", "asks", "outbox", "leases", "deletions"),
    "conversation_settings",
    *("forgettings", "forgetting_tasks", "forgotten_turns"),
    *("schedules", "schedule_runs"),
    *("conversation_choices", "folders", "own_prompts"),
    *("file_changes", "model_usage"),
    *("users", "user_tokens", "user_identities", "invitations", "audit_log", "deleted_turns"),
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
    "hand_over_turn": lambda p: on_a_loop(hand_over_turn, p.runs(), lease=p.held()),
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
    "withhold_asks": withhold_asks,
    "settle_asks": settle_it,
    "enqueue_delivery": enqueue_it,
    "claim_deliveries": claim_it,
    "extend_claim": extend_it,
    "free_dead_claims": free_it,
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
    "choose_for_conversation": lambda p: chosen(p, lambda db: db.choices.choose("s", workspace="/w")),
    "put_folder": lambda _: lambda db: db.choices.put_folder("garden", "/work"),
    "rename_folder": lambda p: chosen(p, lambda db: db.choices.rename_folder("garden", "park")),
    "remove_folder": lambda p: chosen(p, lambda db: db.choices.remove_folder("garden")),
    "put_own_prompt": lambda _: lambda db: db.choices.put_prompt("review", "look at it"),
    "remove_own_prompt": lambda p: chosen(p, lambda db: db.choices.remove_prompt("review")),
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
    **ACCOUNT_OPERATIONS,
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
