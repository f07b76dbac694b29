"""What the counting proxy counts, and what a transaction of the store costs by it."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from bench.wire import FLUSH, CountingProxy, Frames, Traffic, counting_proxy
from holdfast.sessions import SessionDB
from tests.sessions.databases import PostgresPlace

READS = 20


@pytest.fixture
def proxy(postgres: str) -> Iterator[CountingProxy]:
    parts = urlsplit(postgres)
    with counting_proxy(parts.hostname or "127.0.0.1", parts.port or 5432) as proxy:
        yield proxy


def behind(proxy: CountingProxy, url: str) -> str:
    return url.replace(f":{urlsplit(url).port}/", f":{proxy.port}/")


def counted(proxy: CountingProxy, before: Traffic) -> Traffic:
    return proxy.traffic.since(before)


def test_a_statement_is_a_round_trip_and_statements_in_a_pipeline_share_one(
    postgres: str, proxy: CountingProxy
) -> None:
    with psycopg.connect(behind(proxy, postgres), autocommit=True) as connection:
        before = proxy.traffic.copy()
        for _ in range(3):
            connection.execute("select 1")
        assert (counted(proxy, before).statements, counted(proxy, before).round_trips) == (3, 3)
        before = proxy.traffic.copy()
        with connection.pipeline():
            connection.execute("select 2")
            connection.execute("select 3")
        assert (counted(proxy, before).statements, counted(proxy, before).round_trips) == (2, 1)
        assert counted(proxy, before).sent > 0


class AnswersAll(socketserver.BaseRequestHandler):
    """A server that answers everything but a Flush, which it counts."""

    flushed = threading.Semaphore(0)

    def handle(self) -> None:
        while said := self.request.recv(4096):
            if said == FLUSH:
                self.flushed.release()
            else:
                self.request.sendall(b"answer")


def test_a_flush_that_comes_after_the_answer_is_no_round_trip() -> None:
    query = b"Q\0\0\0\x0dselect 1\0"
    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), AnswersAll) as server,
        counting_proxy("127.0.0.1", server.server_address[1]) as proxy,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", proxy.port)) as program:
            for _ in range(3):
                program.sendall(query)
                assert program.recv(4096) == b"answer"
                program.sendall(FLUSH)
                assert AnswersAll.flushed.acquire(timeout=60)
        server.shutdown()
    assert proxy.traffic.round_trips == 3


def test_a_transaction_begins_in_the_round_trip_of_its_first_statement(
    postgres: str, proxy: CountingProxy
) -> None:
    place = PostgresPlace(postgres)
    with SessionDB.open(behind(proxy, place.url)) as db:
        db.create_session("s", source="cli")
        db.conversations.state("s")
        before = proxy.traffic.copy()
        for _ in range(READS):
            db.conversations.state("s")
        spent = counted(proxy, before)
        # begin, two queries and the end; all but the end travel together.
        assert spent.statements == 4 * READS
        assert spent.round_trips <= 2 * READS + 2
    place.drop()


def test_a_read_of_one_query_is_one_round_trip_and_needs_no_transaction(
    postgres: str, proxy: CountingProxy
) -> None:
    place = PostgresPlace(postgres)
    with SessionDB.open(behind(proxy, place.url)) as db:
        db.create_session("s", source="cli")
        db.get_session("s")
        before = proxy.traffic.copy()
        for _ in range(READS):
            db.get_session("s")
        spent = counted(proxy, before)
        assert spent.statements == READS
        # The server is told once to prepare it.
        assert spent.round_trips <= READS + 1
        with pytest.raises(RuntimeError, match="second statement"):
            db._engine.read_once(  # noqa: SLF001
                lambda tx: [tx.queries.get_session(id="s"), tx.queries.get_session(id="s")]
            )
    place.drop()


def test_what_a_transaction_cost_is_told_by_what_it_asked(postgres: str, proxy: CountingProxy) -> None:
    place = PostgresPlace(postgres)
    with SessionDB.open(behind(proxy, place.url)) as db:
        before = proxy.traffic.copy()
        for number in range(READS):
            db.create_session(f"s{number}", source="cli")
        db.get_session("s0")
    kind = counted(proxy, before).kinds["insert_session + get_session"]
    assert kind.transactions == READS
    # begin, the mark, the two queries and COMMIT.
    assert kind.statements == 5 * READS
    assert kind.sent > 0
    assert kind.received > 0
    place.drop()


def test_messages_are_found_however_the_bytes_are_cut() -> None:
    startup = (9).to_bytes(4) + b"12345"
    asked = (8).to_bytes(4) + b"abcd"
    query = b"Q" + (6).to_bytes(4) + b"ab"
    stream = asked + startup + query + query
    for size in (1, 3, len(stream)):
        frames = Frames()
        cuts = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [message for cut in cuts for message in frames.messages(cut)] == [(ord("Q"), b"ab")] * 2
