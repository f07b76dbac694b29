"""A SQLite file whose messages held their places by a key: brought up to date with all that it holds."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.errors import ConstraintBroken
from holdfast.sessions import SessionDB
from holdfast.sessions.migrations import all_steps
from holdfast.sessions.sqlite.schema import split_statements
from tests.sessions.store_fixtures import assistant, contents, user

BEFORE = [step for step in all_steps("sqlite") if step.number < 5]

ROWS = """
insert into sessions (id, parent, relation, source, started, ended, end_reason) values
    ('s', null, null, 'cli', 1, 2, 'compression'),
    ('s2', 's', 'continuation', 'cli', 2, null, null),
    ('other', null, null, 'cli', 3, null, null);
insert into turns (id, session_id, state, started) values ('t', 's2', 'running', 2);
insert into messages (id, session_id, seq, turn_id, role, content, extra, created, carried) values
    (3, 's', 0, null, 'user', 'an indexed beginning', null, 1, 0),
    (4, 's2', 0, null, 'user', 'a summary', null, 2, 0),
    (5, 's2', 1, null, 'user', 'an indexed beginning', null, 1, 1),
    (7, 's2', 2, 't', 'assistant', null, '{"tool_calls":[]}', 3, 0),
    (9, 'other', 0, null, 'user', 'not yet indexed', null, 4, 0);
insert into message_index (rowid, content) select id, content from searchable_messages where id < 9;
insert into meta (key, value) values ('schema', '0004.pre');
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "holdfast.db"
    with closing(sqlite3.connect(path)) as old:
        for step in BEFORE:
            for statement in split_statements(step.sql):
                old.execute(statement)
        old.executescript(ROWS)
        old.commit()
    return path


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(
            "select id, session_id, seq, turn_id, role, content, extra, created, carried"
            " from messages order by id"
        ).fetchall()


def test_every_message_keeps_its_row_and_its_words_are_found(path: Path) -> None:
    before = rows(path)
    with SessionDB(path) as db:
        assert rows(path) == before
        assert [(hit.session_id, hit.seq) for hit in db.search("indexed beginning")] == [("s", 0)]
        assert [(hit.session_id, hit.seq) for hit in db.search("not yet indexed")] == [("other", 0)]
        assert db.check() == []


def test_what_comes_next_stands_in_its_place(path: Path) -> None:
    with SessionDB(path) as db:
        assert db.sessions.append_message("other", user("more")) == 1
        assert db.turns.append("t", [assistant("done")]) == [3]
        assert contents(db.get_messages("s2")) == ["a summary", "an indexed beginning", None, "done"]
        gap = """insert into messages (session_id, seq, role, content, created)
                 values ('other', 3, 'user', 'x', 5)"""
        with pytest.raises(ConstraintBroken, match="stands on the one before it"):
            db._engine.write(lambda tx: tx.connection.execute(gap).rowcount)  # noqa: SLF001 - below the code
        assert db.check() == []


def test_a_conversation_is_deleted_and_no_single_message_of_another(path: Path) -> None:
    with SessionDB(path) as db:
        db.turns.complete("t", assistant("done"))
        assert db.delete_session("s").sessions == ("s", "s2")
        assert db.search("indexed beginning") == []
        last = "delete from messages where session_id = 'other'"
        with pytest.raises(ConstraintBroken, match="only with its conversation"):
            db._engine.write(lambda tx: tx.connection.execute(last).rowcount)  # noqa: SLF001 - below the code
        assert contents(db.get_messages("other")) == ["not yet indexed"]
        assert db.check() == []
