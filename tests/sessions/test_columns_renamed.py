"""A store of schema 6: its columns get their present names, and every row keeps what it holds."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.migrations import all_steps
from holdfast.sessions.sqlite.schema import split_statements
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import assistant, contents, user

SCHEMA = 6

ROWS = """
insert into sessions (id, parent, relation, source, title, started, ended, end_reason) values
    ('s', null, null, 'cli', 'kept', 1000000, 2000000, 'compression'),
    ('s2', 's', 'continuation', 'cli', 'kept', 2000000, null, null),
    ('late', null, null, 'web', null, 3000000, null, null);
update sessions set spoken = 9000000, generation = 1 where id = 's2';
update sessions set spoken = 8000000, generation = 1 where id = 'late';
insert into turns (id, session_id, state, started, ended, generation, account, handover, holder) values
    ('done', 's2', 'completed', 2000000, 2500000, 1, '{"model":"m"}', null, 'h'),
    ('given', 'late', 'completed', 3000000, 3100000, 1, null, '[{"role":"user","content":"more"}]', null);
insert into turns (id, session_id, state, started, holder, resumed, partial, partial_after) values
    ('open', 's2', 'running', 2600000, 'h', 2, 'half an', 1);
insert into messages (session_id, seq, turn_id, role, content, created) values
    ('s', 0, null, 'user', 'how it began', 1100000),
    ('s2', 0, 'done', 'user', 'a question', 2100000),
    ('s2', 1, 'open', 'user', 'another question', 2600000),
    ('late', 0, 'given', 'user', 'said elsewhere', 3000000);
insert into inbox (session_id, mode, message, addressed_to, created) values
    ('s2', 'interrupt', '{"role":"user","content":"stop"}', 'open', 2700000);
insert into outbox (session_id, turn_id, provider, due, created) values ('late', 'given', 'p', 1, 3100000);
insert into leases (name, holder, token, expires) values ('session:s', 'h', 1, 9000000000000000);
insert into asks (id, turn_id, lease, token, asked, created) values
    ('a', 'open', 'session:s', 1, '{"kind":"QuestionAsked"}', 2650000);
insert into meta (key, value) values ('schema', '0006.pre');
"""
RENAMED = {
    "sessions": {"spoken": "last_active"},
    "turns": {"account": "timeline", "handover": "provider_messages", "resumed": "resume_count"},
    "asks": {"asked": "event"},
    "messages": {"before": "previous_seq", "words": "search_vector"},
}
TABLES = ("sessions", "turns", "messages", "inbox", "outbox", "leases", "asks")


class OldStore:
    """A store of the schema before, on one engine."""

    def __init__(self, connection: Any, url: str) -> None:  # noqa: ANN401 - either driver's
        self.connection = connection
        self.url = url

    def tables(self) -> dict[str, list[dict[str, object]]]:
        """All that the store holds, each row by the names of its columns."""
        found = {}
        for table in TABLES:
            cursor = self.connection.execute(f"select * from {table}")  # noqa: S608 - of this file
            names = [column[0] for column in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            found[table] = sorted(rows, key=repr)
        return found


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OldStore]:
    steps = [step for step in all_steps(request.param) if step.number <= SCHEMA]
    if request.param == "sqlite":
        path = tmp_path / "holdfast.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as old:
            for step in steps:
                for statement in split_statements(step.sql):
                    old.execute(statement)
            old.executescript(ROWS)
            yield OldStore(old, f"sqlite:///{path}")
        return
    place = PostgresPlace(request.getfixturevalue("postgres"))
    try:
        for step in steps:
            place.connection.execute(step.sql.encode())
        place.connection.execute(ROWS.encode())
        yield OldStore(place.connection, place.url)
    finally:
        place.drop()


ADDED: dict[str, dict[str, object]] = {"sessions": {"scope": ""}}
"""What a later step gives every row."""


def renamed(tables: dict[str, list[dict[str, object]]]) -> dict[str, list[dict[str, object]]]:
    return {
        table: sorted(
            (
                {RENAMED.get(table, {}).get(name, name): value for name, value in row.items()}
                | ADDED.get(table, {})
                for row in rows
            ),
            key=repr,
        )
        for table, rows in tables.items()
    }


def test_every_row_keeps_what_it_holds_under_the_new_names(store: OldStore) -> None:
    before = store.tables()
    assert all(before.values())
    with SessionDB.open(store.url) as db:
        assert db.check() == []
    assert store.tables() == renamed(before)


def test_what_the_old_columns_held_is_read(store: OldStore) -> None:
    with SessionDB.open(store.url) as db:
        listed = [(each.session.id, each.last_active) for each in db.conversations.list()]
        assert listed == [("s2", 9_000_000), ("late", 8_000_000)]
        assert db.turns.history("done").timeline == {"model": "m"}
        assert db.turns.resume_count("open") == 2
        assert db.turns.partial("open") == "half an"
        turn = db.turns.for_providers("given")
        assert (contents(turn.own), contents(turn.handed), turn.ended) == (
            ["said elsewhere"],
            ["more"],
            3_100_000,
        )
        [ask] = db.asks.open("s2")
        assert ask.event == {"kind": "QuestionAsked"}
        assert [hit.session_id for hit in db.search("elsewhere")] == ["late"]


def test_the_store_goes_on_after_the_renaming(store: OldStore) -> None:
    with SessionDB.open(store.url) as db:
        assert db.asks.answer("a", "yes", lease_name="session:s")
        db.turns.append("open", [assistant("the answer")])
        db.turns.complete("open", providers=["p"], timeline=json.dumps({"model": "n"}))
        assert db.turns.history("open").timeline == {"model": "n"}
        assert db.conversations.list()[0].last_active > 9_000_000
        before = db.conversations.find("s").last_active
        db.rotate("s2", "s3", [user("a summary")], carry_from=2)
        continued = db.conversations.find("s")
        assert (continued.session.id, continued.root_id) == ("s3", "s")
        assert continued.last_active >= before
        [delivery, *_] = db.outbox.claim("p", lease_seconds=10)
        db.outbox.mark_delivered(delivery)
        assert db.turns.for_providers("given").handed == db.turns.messages("given")
        db.create_session("new", source="cli")
        assert db.conversations.list()[0].session.id == "new"
        db.leases.release(db.leases.current("session:s") or pytest.fail("the lease is gone"))
        assert set(db.delete_session("s", force=True).sessions) == {"s", "s2", "s3"}
        assert db.check() == []


def test_a_gap_is_still_refused_after_the_renaming(store: OldStore) -> None:
    gap = "insert into messages (session_id, seq, role, content, created) values ('late', 5, 'user', 'x', 1)"
    with SessionDB.open(store.url):
        pass
    with pytest.raises((sqlite3.IntegrityError, psycopg.errors.ForeignKeyViolation)):
        store.connection.execute(gap)
