"""The scope of a conversation: it begins with one and keeps it, whatever becomes of it."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from holdfast.core.errors import ImportRefused, InvalidInput, WrongScope
from holdfast.process import DaemonPool
from holdfast.sessions import Filters, SessionDB
from holdfast.sessions.contract import SessionStart, scope_folder
from holdfast.sessions.conversation_operations import begin_conversation
from holdfast.sessions.usage import UsageEntry
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, user

ANN, ROOM = "telegram-main/person-123", "matrix-home/room-abc"


def begin(db: SessionDB, session_id: str, scope: str, text: str = "hello", key: str | None = None) -> str:
    pool = DaemonPool("test", workers=1, backlog=10)
    try:
        begun = asyncio.run(
            db.run(
                pool,
                begin_conversation,
                SessionStart(session_id, "chat", scope=scope),
                user(text),
                key=key,
                holder="me",
                lease_seconds=10,
            )
        )
    finally:
        pool.close(1)
    return begun.message.session_id


def scope_of(db: SessionDB, session_id: str) -> str:
    found = db.get_session(session_id)
    assert found is not None
    return found.scope


def execute(database: Database, statement: str) -> None:
    """As another program would."""
    if database.engine == "postgres":
        with psycopg.connect(database.url) as reached:
            reached.execute(statement)
        return
    with closing(sqlite3.connect(database.url.removeprefix("sqlite:///"))) as opened:
        opened.execute(statement)
        opened.commit()


def said(db: SessionDB, session_id: str, scope: str, *texts: str) -> None:
    db.create_session(session_id, source="chat", scope=scope)
    db.sessions.append_messages(session_id, [user(text) for text in texts])


def test_a_conversation_keeps_its_scope_in_continuations_branches_and_delegates(db: SessionDB) -> None:
    said(db, "s", ANN, "one", "two")
    db.rotate("s", "s2", [user("a summary")], carry_from=2)
    db.conversations.branch("s2", "branch")
    db.create_session("delegate", source="delegate", parent="s2", relation="delegate")
    db.create_session(
        "of the delegate", source="delegate", parent="delegate", relation="delegate", scope=ROOM
    )
    assert {scope_of(db, each) for each in ("s", "s2", "branch", "delegate", "of the delegate")} == {ANN}
    assert db.conversations.state("s").scope == ANN
    assert [each.scope for each in db.sessions.conversation("s2")] == [ANN, ANN]
    db.delete_session("s", force=True)
    assert scope_of(db, "branch") == ANN


def test_a_conversation_begun_without_a_scope_is_the_owners(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.turns.record("from a library", [user("hi"), assistant("hello")])
    assert (scope_of(db, "s"), scope_of(db, "from a library")) == ("", "")


def test_a_conversation_begins_in_its_scope_and_a_key_of_another_scope_begins_nothing(db: SessionDB) -> None:
    assert begin(db, "s", ANN, key="event-1") == "s"
    assert scope_of(db, "s") == ANN
    assert begin(db, "again", ANN, key="event-1") == "s"
    with pytest.raises(WrongScope):
        begin(db, "other", ROOM, key="event-1")
    assert db.get_session("other") is None


@pytest.mark.parametrize("scope", ["a\x00b", "x" * 501, "\ud800"])
def test_a_scope_that_no_engine_keeps_is_refused(db: SessionDB, scope: str) -> None:
    with pytest.raises(InvalidInput):
        db.create_session("s", source="chat", scope=scope)


def test_the_list_and_the_search_can_be_asked_for_one_scope(db: SessionDB) -> None:
    for number, scope in enumerate(("", ANN, ROOM)):
        said(db, f"s{number}", scope, f"the harbour {number} 🚢")
    for number, scope in enumerate(("", ANN, ROOM)):
        assert [each.session.id for each in db.conversations.list(scope=scope)] == [f"s{number}"]
        for words in ("harbour", "🚢"):
            assert [hit.session_id for hit in db.search(words, filters=Filters(scope=scope))] == [
                f"s{number}"
            ]
    assert {each.session.scope for each in db.conversations.list()} == {"", ANN, ROOM}
    assert len(db.search("harbour")) == 3
    assert db.conversations.list(scope="nobody") == []


def test_an_export_keeps_the_scope_and_one_without_it_is_the_owners(db: SessionDB, empty: SessionDB) -> None:
    said(db, "s", ANN, "one")
    db.rotate("s", "s2", [user("a summary")], carry_from=1)
    said(db, "mine", "", "two")
    for session_id in ("s", "mine"):
        lines = db.export_session(session_id)
        empty.import_session(lines)
        assert empty.export_session(session_id) == lines
    assert [scope_of(empty, each) for each in ("s", "s2", "mine")] == [ANN, ANN, ""]
    assert not any("scope" in line for line in db.export_session("mine"))


@pytest.mark.parametrize("scope", ["", 5, None])
def test_an_import_with_a_scope_that_is_none_is_refused(
    db: SessionDB, empty: SessionDB, scope: object
) -> None:
    said(db, "s", ANN, "one")
    mark, session, *rest = db.export_session("s")
    fields = json.loads(session)
    fields["session"]["scope"] = scope
    with pytest.raises(ImportRefused):
        empty.import_session([mark, json.dumps(fields), *rest])


def test_no_statement_moves_a_session_to_another_scope(db: SessionDB, database: Database) -> None:
    said(db, "s", ANN, "one")
    with pytest.raises((sqlite3.IntegrityError, psycopg.Error), match="keeps its scope"):
        execute(database, "update sessions set scope = '' where id = 's'")
    assert scope_of(db, "s") == ANN


def test_the_tokens_of_a_scope_are_those_of_its_turns_lately(db: SessionDB, database: Database) -> None:
    for session_id, scope, tokens in (("a", ANN, 100), ("b", ANN, 30), ("c", ROOM, 7)):
        said(db, session_id, scope)
        turn = db.turns.open(session_id, user("go"))
        db.turns.complete(turn.id, assistant("done"), timeline=json.dumps({"tokens": [tokens, 1, 0]}))
    said(db, "d", ANN)
    db.turns.complete(db.turns.open("d", user("old")).id, assistant("one without a timeline"))
    assert [db.turns.tokens_used(scope, 60) for scope in (ANN, ROOM, "")] == [132, 8, 0]
    db.usage.record("a", [UsageEntry("summary", "m", input=900, output=99)])
    assert [db.turns.tokens_used(scope, 60) for scope in (ANN, ROOM, "")] == [1131, 8, 0]
    db.delete_session("a", force=True)
    assert db.turns.tokens_used(ANN, 60) == 1131, "what was used is not given back"
    assert db.turns.turns_begun(ANN, 60) == 3
    database.clock.advance(61)
    assert db.turns.tokens_used(ANN, 60) == 0


def test_the_turns_of_a_scope_that_run_are_counted(db: SessionDB) -> None:
    said(db, "s", ANN)
    said(db, "t", ROOM)
    turn = db.turns.open("s", user("go"))
    assert [db.turns.turns_running(scope) for scope in (ANN, ROOM)] == [1, 0]
    db.turns.complete(turn.id, assistant("done"))
    assert db.turns.turns_running(ANN) == 0


def test_scopes_that_look_alike_have_folders_of_their_own() -> None:
    alike = ["a/b", "a-b", "a b", "A/b", "../a-b", "", ".", "..", "x" * 500, "x" * 499]
    folders = {scope_folder(each) for each in alike}
    assert len(folders) == len(alike)
    assert all(each == Path(each).name and not each.startswith(".") for each in folders)
