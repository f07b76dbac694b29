"""The named queries: what each kind returns, and that its text is at hand."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.queries import load_queries
from tests.sessions.store_fixtures import user


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with SessionDB(tmp_path / "holdfast.db") as db:
        db.create_session("s", source="cli")
        db.sessions.append_messages("s", [user("one"), user("two")])
    with closing(sqlite3.connect(tmp_path / "holdfast.db", isolation_level=None)) as connection:
        connection.create_function("store_now", 0, lambda: 7)
        yield connection


def test_a_query_returns_what_its_mark_says(connection: sqlite3.Connection) -> None:
    queries = load_queries("sqlite", "sqlite3")(connection)
    assert list(queries.get_messages(session_id="s")) == [
        ("user", "one", None),
        ("user", "two", None),
    ]
    assert queries.get_session(id="s")[0] == "s"
    assert queries.get_session(id="nobody") is None
    assert queries.message_count(session_id="s") == 2
    assert queries.root(id="nobody") is None
    assert queries.touch_session(id="s") == 1
    assert queries.touch_session(id="nobody") == 0


def test_a_query_leaves_no_statement_open(connection: sqlite3.Connection) -> None:
    queries = load_queries("sqlite", "sqlite3")(connection)
    connection.execute("begin")
    assert queries.get_session(id="s") is not None
    assert queries.message_count(session_id="s") == 2
    connection.execute("commit")
    # An open statement would hold its snapshot, and the log could not be emptied.
    assert connection.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0


def test_parameters_go_by_name_and_none_may_be_missing(connection: sqlite3.Connection) -> None:
    queries = load_queries("sqlite", "sqlite3")(connection)
    with pytest.raises(TypeError):
        queries.get_session("s")
    with pytest.raises(sqlite3.ProgrammingError):
        queries.get_session()


@pytest.mark.parametrize(("engine", "adapter"), [("sqlite", "sqlite3"), ("postgres", "psycopg")])
def test_every_query_has_its_text(engine: str, adapter: str) -> None:
    queries = {name: query for name, query in vars(load_queries(engine, adapter)).items() if callable(query)}
    assert len(queries) > 100
    assert all(query.sql and query.__name__ == name for name, query in queries.items())


def test_no_query_has_a_percent_sign_which_the_driver_of_postgresql_reads_as_a_parameter() -> None:
    folder = files("holdfast.sessions").joinpath("sql")
    named = [each for part in ("shared", "postgres") for each in folder.joinpath(part).iterdir()]
    assert [each.name for each in named if "%" in each.read_text(encoding="utf-8")] == []
