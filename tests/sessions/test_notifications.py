"""Processes on one PostgreSQL hear of each other's changes at once; what is not heard is found by looking."""

import queue
from collections.abc import Iterator

import psycopg
import pytest

from holdfast.sessions import SessionDB
from holdfast.sessions.live_text import LivePiece
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import until

SOON = 30.0


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


@pytest.fixture
def stores(url: str) -> Iterator[tuple[SessionDB, SessionDB]]:
    with SessionDB.open(url) as here, SessionDB.open(url) as there:
        yield here, there


def listen(db: SessionDB) -> "queue.Queue[str]":
    """What a store hears, from the moment on at which it listens."""
    heard: queue.Queue[str] = queue.Queue()
    db.notifications.subscribe(heard.put)
    assert heard.get(timeout=SOON) == ""  # it listens now, and may have missed something
    return heard


@pytest.mark.clause("N1")
def test_a_change_is_heard_by_other_processes_and_not_by_the_one_that_made_it(
    stores: tuple[SessionDB, SessionDB],
) -> None:
    here, there = stores
    own, others = listen(here), listen(there)
    here.create_session("s", source="test")
    assert others.get(timeout=SOON) == ""
    assert there.get_session("s") is not None  # what was told is committed
    there.notifications.send("a note")
    heard = own.get(timeout=SOON)
    assert heard == "a note"
    assert own.empty()


@pytest.mark.clause("N1")
def test_a_lost_connection_is_made_again_and_counts_as_a_change(
    stores: tuple[SessionDB, SessionDB], postgres: str
) -> None:
    here, there = stores
    listen(here)
    others = listen(there)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %'")
    assert others.get(timeout=SOON) == ""  # it listens again
    here.create_session("s", source="test")
    while there.get_session("s") is None:
        assert others.get(timeout=SOON) == ""


def test_stores_in_other_schemas_of_a_database_are_not_heard(
    stores: tuple[SessionDB, SessionDB], postgres: str
) -> None:
    here, there = stores
    own = listen(here)
    other = PostgresPlace(postgres)
    with SessionDB.open(other.url) as stranger:
        listen(stranger)
        stranger.notifications.send("for others")
    listen(there)
    there.notifications.send("for us")
    assert own.get(timeout=SOON) == "for us"
    other.drop()


@pytest.mark.clause("N1")
def test_text_goes_to_readers_that_asked_for_it_and_to_nobody_else(
    stores: tuple[SessionDB, SessionDB],
) -> None:
    runner, reader = stores
    assert not runner.live_text.is_read_elsewhere("t")
    until(lambda: runner.notifications.is_listening)
    listen(reader)
    pieces: queue.Queue[LivePiece] = queue.Queue()
    asked: queue.Queue[str] = queue.Queue()
    runner.notifications.subscribe(asked.put)
    reader.live_text.read("t", pieces.put)
    while asked.get(timeout=SOON) != '"t"':
        pass
    assert runner.live_text.is_read_elsewhere("t")
    assert not runner.live_text.is_read_elsewhere("another")
    text = "wörd " * 500
    runner.live_text.send("t", 1, 7, text)
    found = [pieces.get(timeout=SOON) for _ in range(3)]
    assert "".join(piece.text for piece in found) == text
    assert [(piece.step, piece.start) for piece in found] == [(1, 7), (1, 1007), (1, 2007)]
