"""Deleting a conversation: all of it goes at once, nothing of others; what runs or is owed is a refusal."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.errors import LeaseLost, SessionBusy, SessionNotFound, StillOwed
from holdfast.sessions import SessionDB
from holdfast.testing import CrashingEngine, ProcessDied
from holdfast.testing.faults import Moment
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import Outcome, assistant, completed_turn, contents, user


def long_conversation(db: SessionDB) -> None:
    """Two sessions, three turns, a subagent with a continuation of its own, a branch, and taken messages."""
    db.create_session("s", source="cli", title="trip")
    completed_turn(db, "s", "zebra one")
    waiting = db.inbox.put("s", user("zebra two"))
    turn = db.turns.open("s", take=waiting.id)
    db.turns.append(turn.id, [assistant("looking")])
    db.rotate("s", "s2", [user("zebra summary")], carry_from=2)
    db.turns.complete(turn.id, assistant("found"))
    db.create_session("helper", source="delegate", parent="s2", relation="delegate")
    completed_turn(db, "helper", "zebra task")
    db.rotate("helper", "helper2", [user("zebra so far")], carry_from=1)
    db.conversations.branch("s2", "branch")
    db.try_acquire_compression_lock("s2", "me")
    db.release_compression_lock("s2", "me")


def everything(db: SessionDB) -> list[list[str]]:
    return [db.export_session(each.session.id) for each in db.conversations.list(limit=None)]


def test_the_whole_conversation_goes_with_its_subagents_and_no_other_is_touched(db: SessionDB) -> None:
    db.create_session("other", source="cli")
    completed_turn(db, "other", "zebra elsewhere")
    before = db.export_session("other")
    long_conversation(db)
    deleted = db.delete_session("s2")
    assert deleted.root_id == "s"
    assert set(deleted.sessions) == {"s", "s2", "helper", "helper2"}
    for gone in deleted.sessions:
        assert db.get_session(gone) is None
        assert db.get_messages(gone) == []
    assert db.export_session("other") == before
    assert {hit.session_id for hit in db.search("zebra")} == {"other"}
    assert db.check() == []
    with pytest.raises(SessionNotFound):
        db.delete_session("s")


def test_a_branch_keeps_its_copies_and_stands_alone(db: SessionDB) -> None:
    long_conversation(db)
    copies = db.get_messages("branch")
    db.delete_session("s")
    branch = db.get_session("branch")
    assert branch is not None
    assert (branch.parent, branch.relation) == (None, None)
    assert db.get_messages("branch") == copies
    assert contents(copies)[0] == "zebra summary"
    completed_turn(db, "branch", "going on")
    assert db.check() == []


def test_what_is_stored_after_a_deletion_is_found_and_sound(db: SessionDB) -> None:
    """The newest messages go, so that on SQLite their row ids are given out again."""
    db.create_session("old", source="cli")
    db.sessions.append_message("old", user("walrus first"))
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user(f"walrus number {n}") for n in range(20)])
    assert len(db.search("walrus", limit=50)) == 21
    db.sessions.append_messages("s", [user("walrus not indexed yet")])
    db.delete_session("s")
    assert [hit.session_id for hit in db.search("walrus")] == ["old"]
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user(f"walrus again {n}") for n in range(3)])
    assert len(db.search("walrus")) == 4
    assert len(db.search("again")) == 3
    assert db.search("number") == []
    assert db.check() == []


def test_an_exported_conversation_can_be_deleted_and_imported_again(db: SessionDB) -> None:
    long_conversation(db)
    lines = db.export_session("s")
    db.delete_session("s")
    assert db.import_session(lines) == ["s", "s2"]
    assert db.export_session("s2") == lines
    assert db.check() == []


@pytest.mark.clause("D3")
def test_a_conversation_that_memory_is_owed_is_not_deleted_unless_forced(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    completed_turn(db, "s", providers=["local", "far"])
    completed_turn(db, "s", "how?", providers=["far"])
    [delivery] = db.outbox.claim("local", lease_seconds=5)
    db.outbox.set_aside(delivery, error="never")
    with pytest.raises(StillOwed, match="2 turns to far and 1 turn to local") as refused:
        db.delete_session("s")
    assert refused.value.owed == {"far": 2, "local": 1}
    assert len(db.get_messages("s")) == 4
    for _ in range(2):
        db.outbox.mark_delivered(*db.outbox.claim("far", lease_seconds=5))
    db.outbox.drop(delivery.id)
    db.delete_session("s")
    db.create_session("t", source="cli")
    completed_turn(db, "t", providers=["far"])
    [claimed] = db.outbox.claim("far", lease_seconds=5)
    db.delete_session("t", force=True)
    assert db.outbox.backlog("far").owed == 0
    with pytest.raises(LeaseLost):
        db.outbox.mark_delivered(claimed)
    assert db.check() == []


def test_what_runs_or_waits_keeps_a_conversation_from_being_deleted(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    turn = db.turns.open("s", user("hm"))
    with pytest.raises(SessionBusy, match="is running"):
        db.delete_session("s")
    db.turns.complete(turn.id, assistant("ok"))
    db.inbox.put("s", user("one more"))
    with pytest.raises(SessionBusy, match="1 messages wait"):
        db.delete_session("s")
    assert db.hold_session("s", "a process") is not None
    with pytest.raises(SessionBusy, match="another process runs it"):
        db.delete_session("s", force=True)
    db.let_go_of_session("s", "a process")
    assert len(db.get_messages("s")) == 2
    db.delete_session("s", force=True)
    assert db.check() == []


def test_who_holds_the_conversation_deletes_it_with_the_turn_that_a_crash_left(
    db: SessionDB, database: Database
) -> None:
    db.create_session("s", source="cli")
    db.turns.open("s", user("hm"))
    db.hold_session("s", "me")
    with pytest.raises(LeaseLost):
        db.delete_session("s", holder="you")
    db.delete_session("s", holder="me")
    assert db.get_session("s") is None
    db.create_session("s", source="cli")
    assert db.session_holder("s") is None
    assert database.open().hold_session("s", "you") is not None


def test_a_conversation_of_many_messages_is_deleted(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.sessions.append_messages("s", [user(f"w{n}") for n in range(2_000)])
    other = db.create_session("other", source="cli")
    db.delete_session("s")
    assert [each.session.id for each in db.conversations.list()] == [other.id]


KEYS_OF_POSTGRES = """
select t.relname, array(select a.attname from unnest(k.conkey) with ordinality c(number, place)
                          join pg_attribute a on a.attrelid = t.oid and a.attnum = c.number order by c.place)
  from pg_constraint k join pg_class t on t.oid = k.conrelid
 where k.contype = 'f' and k.connamespace = current_schema()::regnamespace
"""
INDEXES_OF_POSTGRES = """
select t.relname, array(select a.attname from unnest(i.indkey) with ordinality c(number, place)
                          join pg_attribute a on a.attrelid = t.oid and a.attnum = c.number order by c.place)
  from pg_index i join pg_class t on t.oid = i.indrelid
 where t.relnamespace = current_schema()::regnamespace
"""
KEYS_OF_SQLITE = """
select t.name, (select json_group_array(k."from") from pragma_foreign_key_list(t.name) k where k.id = f.id)
  from sqlite_schema t, pragma_foreign_key_list(t.name) f where t.type = 'table' group by t.name, f.id
"""
INDEXES_OF_SQLITE = """
select t.name, (select json_group_array(c.name) from pragma_index_info(i.name) c)
  from sqlite_schema t, pragma_index_list(t.name) i where t.type = 'table'
"""


def test_what_refers_to_a_deleted_row_is_found_by_an_index(db: SessionDB) -> None:
    """Without one, deleting a conversation takes the square of the number of its messages."""

    def columns(query: str) -> list[tuple[str, list[str]]]:
        rows = db._engine.read(  # noqa: SLF001 - a store is built on an engine
            lambda tx: tx.connection.execute(query).fetchall()
        )
        return [(table, json.loads(found) if isinstance(found, str) else found) for table, found in rows]

    on_sqlite = db.location.endswith(".db")
    keys = columns(KEYS_OF_SQLITE if on_sqlite else KEYS_OF_POSTGRES)
    indexes = columns(INDEXES_OF_SQLITE if on_sqlite else INDEXES_OF_POSTGRES)
    assert len(keys) > 5
    for table, key in keys:
        found = [place for owner, place in indexes if owner == table]
        assert any(sorted(place[: len(key)]) == sorted(key) for place in found), (table, key, found)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_leaves_all_of_a_conversation_or_nothing(database: Database, moment: Moment) -> None:
    with database.open() as db:
        long_conversation(db)
        before = everything(db)
        engine = CrashingEngine(db._engine)  # noqa: SLF001 - a store is built on an engine
        engine.arm(moment)
        with pytest.raises(ProcessDied):
            SessionDB.on(engine).delete_session("s")
    with database.open() as db:
        assert db.check() == []
        if moment == "before":
            assert everything(db) == before
        else:
            assert [each.root_id for each in db.conversations.list()] == ["branch"]


def test_two_who_delete_one_conversation_at_once_delete_it_once(database: Database) -> None:
    for turn in range(5):
        with database.open() as one, database.open() as two:
            one.create_session(f"s{turn}", source="cli")
            completed_turn(one, f"s{turn}")
            outcomes = [Outcome(partial(each.delete_session, f"s{turn}")) for each in (one, two)]
            errors = [each.wait().error for each in outcomes]
            assert sorted(type(each).__name__ for each in errors) == ["NoneType", "SessionNotFound"]
            assert one.check() == []


def test_what_arrives_while_a_conversation_is_deleted_is_stored_or_refused_never_half(
    database: Database,
) -> None:
    for number in range(8):
        with database.open() as one, database.open() as two:
            name = f"s{number}"
            one.create_session(name, source="cli")
            completed_turn(one, name)
            calls: list[Callable[[], object]] = [
                partial(two.inbox.put, name, user("late")),
                partial(two.turns.open, name, user("late")),
                partial(two.conversations.branch, name, f"{name}-branch"),
                partial(two.rotate, name, f"{name}-child", [user("sum")], carry_from=0),
            ]
            deleting = Outcome(partial(one.delete_session, name))
            arriving = Outcome(calls[number % len(calls)])
            failures = {type(each.wait().error).__name__ for each in (deleting, arriving)}
            assert failures <= {"NoneType", "SessionNotFound", "SessionBusy"}
            assert one.check() == []
            gone = one.get_session(name) is None
            assert gone == (deleting.error is None)


def test_a_backup_after_a_deletion_is_sound_and_does_not_hold_it(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "holdfast.db") as db:
        long_conversation(db)
        db.delete_session("s")
        db.backup(tmp_path / "copy.db")
    with SessionDB(tmp_path / "copy.db") as copy:
        assert copy.check() == []
        assert [each.root_id for each in copy.conversations.list()] == ["branch"]
        assert copy.search("zebra") == []
