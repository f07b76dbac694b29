"""A database of the schema before conversations had roots: brought up to date with all that it holds."""

import sqlite3
from pathlib import Path

import psycopg
import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.migrations import all_steps
from holdfast.sessions.sqlite.schema import split_statements
from tests.sessions.databases import PostgresPlace

BEFORE = [step for step in all_steps("sqlite") if step.number < 3]

ROWS = """
insert into sessions (id, parent, relation, source, started, ended, end_reason) values
    ('s', null, null, 'cli', 1000000, 2000000, 'compression'),
    ('s2', 's', 'continuation', 'cli', 2000000, 3000000, 'compression'),
    ('s3', 's2', 'continuation', 'cli', 3000000, null, null),
    ('b', 's2', 'branch', 'cli', 2500000, null, null),
    ('d', 's3', 'delegate', 'delegate', 3500000, 3600000, 'compression'),
    ('d2', 'd', 'continuation', 'delegate', 3600000, null, null);
insert into messages (session_id, seq, role, content, created) values
    ('s', 0, 'user', 'how it began', 1100000),
    ('s3', 0, 'user', 'a summary', 3000000),
    ('s3', 1, 'user', 'the last word', 4000000),
    ('d2', 0, 'user', 'a task', 3700000);
"""


def check_migrated(db: SessionDB) -> None:
    listed = {each.session.id: each for each in db.conversations.list()}
    assert set(listed) == {"s3", "b"}
    assert (listed["s3"].root_id, listed["b"].root_id) == ("s", "b")
    assert (listed["s3"].last_active, listed["b"].last_active) == (4_000_000, 2_500_000)
    assert listed["s3"].opening == "how it began"
    assert not any(each.pinned or each.archived for each in listed.values())
    assert db.sessions.lineage("s2") == ["s", "s2", "s3"]
    assert db.check() == []
    db.conversations.set_title("s", "kept")
    db.rotate("s3", "s4", [{"role": "user", "content": "more"}], carry_from=2)
    assert db.conversations.find("s").session.title == "kept"
    assert set(db.delete_session("s4").sessions) == {"s", "s2", "s3", "s4", "d", "d2"}
    assert [each.root_id for each in db.conversations.list()] == ["b"]
    assert db.check() == []


def test_what_sqlite_held_stands_in_its_conversations(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    old = sqlite3.connect(path)
    for step in BEFORE:
        for statement in split_statements(step.sql):
            old.execute(statement)
    old.executescript(ROWS)
    old.execute("insert into meta (key, value) values ('schema', '0002.pre')")
    old.commit()
    old.close()
    with SessionDB(path) as db:
        check_migrated(db)


def test_what_postgresql_held_stands_in_its_conversations(postgres: str) -> None:
    place = PostgresPlace(postgres)
    try:
        for step in all_steps("postgres"):
            if step.number < 3:
                place.connection.execute(step.sql.encode())
        place.connection.execute(ROWS.encode())
        place.connection.execute("insert into meta (key, value) values ('schema', '0002.pre')")
        with SessionDB.open(place.url) as db:
            check_migrated(db)
    finally:
        place.drop()


def test_a_process_of_the_release_before_still_begins_sessions_in_the_new_schema(postgres: str) -> None:
    """Its statements name no new column: the schema itself puts each session into its conversation."""
    place = PostgresPlace(postgres)
    try:
        with SessionDB.open(place.url) as db:
            place.connection.execute(
                "insert into sessions (id, parent, relation, source, started, ended, end_reason) values"
                " ('s', null, null, 'cli', 1, 2, 'compression'),"
                " ('s2', 's', 'continuation', 'cli', 2, null, null)"
            )
            [listed] = db.conversations.list()
            assert (listed.session.id, listed.root_id) == ("s2", "s")
            with pytest.raises(psycopg.errors.UniqueViolation):
                place.connection.execute(
                    "insert into sessions (id, parent, relation, source, started)"
                    " values ('s3', 's', 'continuation', 'cli', 3)"
                )
            assert db.check() == []
    finally:
        place.drop()
