"""The schema: brought up to date once, forward only, and true to the tables of states."""

import sqlite3
from pathlib import Path

import pytest

from holdfast.core.errors import HoldfastError, SchemaTooNew
from holdfast.core.states import (
    ASK,
    DELIVERY,
    INBOX,
    RUN_DELIVERY,
    SCHEDULE,
    SCHEDULED_RUN,
    STORED,
    TURN,
    StateMachine,
)
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import MODES
from holdfast.sessions.migrations import SchemaMark, all_steps, parse_step, pending_steps
from holdfast.sessions.schedules import NewSchedule
from holdfast.sessions.sqlite.schema import split_statements
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import completed_turn, user

ENGINES = pytest.mark.parametrize("engine", ["sqlite", "postgres"])


@ENGINES
def test_steps_are_numbered_from_one_without_gaps_and_in_order(engine: str) -> None:
    steps = all_steps(engine)
    assert steps[0].name == "0001.pre"
    assert [step.name for step in steps] == sorted({step.name for step in steps})
    assert {step.number for step in steps} == set(range(1, steps[-1].number + 1))
    assert all(parse_step(step.name) == (step.number, step.half) for step in steps)


def test_both_engines_are_at_the_same_step() -> None:
    assert [step.name for step in all_steps("sqlite")] == [step.name for step in all_steps("postgres")]


@ENGINES
def test_what_was_applied_is_not_applied_again(engine: str) -> None:
    steps = all_steps(engine)
    assert pending_steps(engine, SchemaMark(), "here") == steps
    assert pending_steps(engine, SchemaMark(steps[-1].name), "here") == []


@ENGINES
@pytest.mark.parametrize("mark", ["9999.pre", "9999.post", "0001.later", "banana", "", "1.2.3"])
def test_a_mark_this_release_does_not_know_is_newer(engine: str, mark: str) -> None:
    if mark == "0001.later" and all_steps(engine)[-1].number > 1:
        mark = f"{all_steps(engine)[-1].number:04d}.later"
    with pytest.raises(SchemaTooNew, match="here"):
        pending_steps(engine, SchemaMark(mark), "here")


def test_opening_again_changes_nothing(database: Database) -> None:
    with database.open() as db:
        db.create_session("s", source="cli")
        completed_turn(db, "s")
        before = db.export_session("s")
    for _ in range(3):
        with database.open() as db:
            assert db.export_session("s") == before
            assert db.check() == []


def test_a_step_that_fails_leaves_no_half_of_a_schema(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    other = sqlite3.connect(path)
    other.executescript("pragma application_id = 0x484f4c44; create table outbox (x);")
    other.close()
    before = path.read_bytes()
    with pytest.raises(HoldfastError):
        SessionDB(path)
    other = sqlite3.connect(path)
    assert other.execute("select name from sqlite_schema").fetchall() == [("outbox",)]
    other.close()
    assert len(path.read_bytes()) == len(before)


def test_a_script_is_cut_where_statements_end_and_triggers_stay_whole() -> None:
    script = """
-- a comment; with a semicolon
create table a (x text default 'a;b');
create trigger t after insert on a begin
    insert into a values (';');
    delete from a;
end;
create table b (y)
"""
    statements = split_statements(script)
    assert len(statements) == 3
    connection = sqlite3.connect(":memory:")
    for statement in statements:
        connection.execute(statement)
    names = connection.execute("select name from sqlite_schema order by name").fetchall()
    assert names == [("a",), ("b",), ("t",)]
    connection.close()


def execute(db: SessionDB, sql: str) -> int:
    """Run a statement below every check in code."""
    return int(db._engine.write(lambda tx: tx.connection.execute(sql).rowcount))  # noqa: SLF001


STATEMENTS = {
    TURN.name: """
        update turns set state = 'STATE', ended = case when 'STATE' = 'running' then null else 1 end,
                         generation = case when 'STATE' = 'completed' then 1 end
         where id = 't'
    """,
    INBOX.name: "update inbox set state = 'STATE', turn_id = case when 'STATE' = 'taken' then 't' end",
    ASK.name: "update asks set state = 'STATE', answer = case when 'STATE' = 'answered' then 'yes' end",
    DELIVERY.name: """
        update outbox set state = 'STATE', lease = case when 'STATE' = 'claimed' then 'l' end,
                          settled = case when 'STATE' in ('delivered', 'dropped') then 1 end
    """,
    SCHEDULE.name: "update schedules set state = 'STATE'",
    SCHEDULED_RUN.name: """
        update schedule_runs set state = 'STATE', claimed_until = 1,
                                 ended = case when 'STATE' in ('due', 'running') then null else 1 end
    """,
    RUN_DELIVERY.name: "update schedule_runs set state = 'done', ended = 1, delivery = 'STATE'",
}


@pytest.mark.parametrize("machine", STORED, ids=lambda machine: machine.name)
def test_the_schema_takes_every_state_of_the_table_and_no_other(db: SessionDB, machine: StateMachine) -> None:
    setter = STATEMENTS[machine.name]
    db.create_session("s", source="cli")
    db.inbox.put("s", user("waits"))
    turn = db.turns.open("s", user("q"), turn_id="t")
    lease = db.hold_session("s", "h")
    assert lease is not None
    db.asks.put("a", "t", {"kind": "QuestionAsked"}, lease=lease)
    db.turns.complete(turn.id, providers=["p"])
    db.schedules.run_now(db.schedules.add(NewSchedule("look", "every hour", "UTC", room="lobby")).id)
    for state in machine.states:
        assert execute(db, setter.replace("STATE", state)) == 1, state
    for state in ("", "unknown", machine.start.upper(), f"{machine.start} "):
        with pytest.raises(HoldfastError, match="rules"):
            execute(db, setter.replace("STATE", state))


def test_the_schema_takes_every_mode_and_no_other(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.inbox.put("s", user("waits"))
    for mode in MODES:
        assert execute(db, "update inbox set mode = 'MODE'".replace("MODE", mode)) == 1
    with pytest.raises(HoldfastError, match="rules"):
        execute(db, "update inbox set mode = 'now'")


NEVER = [
    "update sessions set ended = 1 where id = 's'",
    "update sessions set end_reason = 'x' where id = 's'",
    "update sessions set parent = 's' where id = 's'",
    "update sessions set relation = 'branch' where id = 's'",
    "update sessions set committed_generation = 2 where id = 's'",
    "update sessions set committed_generation = -1 where id = 's'",
    "update sessions set id = '' where id = 'empty'",
    "delete from sessions where id = 's'",
    "insert into turns (id, session_id, state, started) values ('t2', 's', 'completed', 1)",
    (
        "insert into turns (id, session_id, state, started, ended, generation)"
        " values ('t2', 's', 'completed', 1, 1, 1)"
    ),
    "insert into turns (id, session_id, state, started) values ('t2', 'nobody', 'running', 1)",
    "insert into messages (session_id, seq, role, content, created) values ('s', 9, 'user', 'x', 1)",
    "insert into messages (session_id, seq, role, content, created) values ('s', 0, 'user', 'x', 1)",
    "insert into messages (session_id, seq, role, content, created) values ('s', -1, 'user', 'x', 1)",
    "insert into messages (session_id, seq, role, created) values ('empty', 0, 'user', 1)",
    "insert into messages (session_id, seq, role, content, created) values ('s', 3, 'user', 'x', 1)",
    "insert into messages (session_id, seq, role, content, created) values ('empty', 1, 'user', 'x', 1)",
    "update messages set seq = 5 where session_id = 's' and seq = 1",
    "update messages set session_id = 'empty' where session_id = 's' and seq = 1",
    "delete from messages where session_id = 's' and seq = 0",
    "update outbox set provider = ''",
    "update outbox set attempts = -1",
    "update outbox set lease = 'x'",
    "update outbox set settled = 1",
    "insert into outbox (session_id, turn_id, provider, due, created) values ('s', 't', 'p', 1, 1)",
    "update inbox set state = 'taken'",
    "insert into asks (id, turn_id, lease, token, event, created) values ('a', 'nobody', 'l', 1, '{}', 1)",
    (
        "insert into asks (id, turn_id, lease, token, event, answer, created)"
        " values ('a', 't', 'l', 1, '', 'y', 1)"
    ),
    "insert into leases (name, holder, token, expires) values ('', 'h', 1, 1)",
    "insert into leases (name, holder, token, expires) values ('n', 'h', 0, 1)",
]


def test_the_schema_itself_refuses_what_must_never_be(db: SessionDB) -> None:
    for session_id in ("s", "empty"):
        db.create_session(session_id, source="cli")
    db.inbox.put("s", user("waits"))
    turn = db.turns.open("s", user("q"), turn_id="t")
    db.turns.complete(turn.id, user("a"), providers=["p"])
    before = db.export_session("s")
    for statement in NEVER:
        with pytest.raises(HoldfastError, match="rules"):
            execute(db, statement)
        assert db.export_session("s") == before, statement


@pytest.mark.clause("C5")
def test_one_running_turn_and_one_continuation_are_constraints(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.turns.open("s", user("q"))
    with pytest.raises(HoldfastError, match="rules"):
        execute(
            db,
            "insert into turns (id, session_id, state, started) values ('t2', 's', 'running', 1)",
        )
    db.rotate("s", "child", [], carry_from=0)
    with pytest.raises(HoldfastError, match="rules"):
        execute(
            db,
            "insert into sessions (id, parent, relation, source, started)"
            " values ('fork', 's', 'continuation', 'cli', 1)",
        )
