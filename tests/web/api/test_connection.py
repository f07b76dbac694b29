"""What comes over a socket: requests that could be taken for others are refused, whole ones are answered."""

import asyncio
import json
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast.core.settings import WebSettings
from holdfast.process.server_connection import MOST_HEAD
from holdfast.sessions import SessionDB
from holdfast.web import streams
from tests.agent.agent_fixtures import until
from tests.web.api.api_server import TOKEN, Served, served

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def db(in_memory: SessionDB) -> SessionDB:
    """A connection does not depend on the engine of the store."""
    return in_memory


GET = b"GET /healthz HTTP/1.1"
POST = b"POST /api/sessions HTTP/1.1"
HOST = b"Host: localhost"
TOKEN_LINE = f"Authorization: Bearer {TOKEN}".encode()
JSON_LINE = b"Content-Type: application/json"
CLOSE = b"Connection: close"
CHUNKED = b"Transfer-Encoding: chunked"


def head(first: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join([first, *lines, b"", b""])


def posted(*lines: bytes, body: bytes, first: bytes = POST) -> bytes:
    return head(first, HOST, TOKEN_LINE, JSON_LINE, *lines) + body


HIDDEN = posted(b"Content-Length: 2", body=b"{}")
REFUSED = {
    "no Host": head(GET),
    "two Hosts": head(GET, HOST, HOST),
    "a length and chunks": posted(b"Content-Length: 5", CHUNKED, body=b"0\r\n\r\n" + HIDDEN),
    "chunks and a length": posted(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n" + HIDDEN),
    "two lengths": posted(b"Content-Length: 2", b"Content-Length: 5", body=b"{}" + HIDDEN),
    "a list of lengths": posted(b"Content-Length: 2, 5", body=b"{}" + HIDDEN),
    "a signed length": posted(b"Content-Length: +2", body=b"{}"),
    "a length below zero": posted(b"Content-Length: -2", body=b"{}"),
    "a hexadecimal length": posted(b"Content-Length: 0x2", body=b"{}"),
    "a length that no number holds": posted(b"Content-Length: 18446744073709551618", body=b"{}"),
    "no chunks after all": posted(b"Transfer-Encoding: chunked, identity", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "two codings": posted(b"Transfer-Encoding: gzip, chunked", body=b"2\r\n{}\r\n0\r\n\r\n"),
    "two codings in two lines": posted(
        b"Transfer-Encoding: identity", CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n" + HIDDEN
    ),
    "chunks twice": posted(CHUNKED, CHUNKED, body=b"2\r\n{}\r\n0\r\n\r\n"),
    "a coding with a tab of its own": posted(b"Transfer-Encoding: \x0bchunked", body=b"0\r\n\r\n"),
    "a space before the colon": posted(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
    "a folded coding": posted(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n"),
    "chunks in HTTP/1.0": posted(CHUNKED, body=b"0\r\n\r\n", first=b"POST /api/sessions HTTP/1.0"),
    "a bad chunk": posted(CHUNKED, body=b"zz\r\n{}\r\n0\r\n\r\n"),
    "a signed chunk": posted(CHUNKED, body=b"+2\r\n{}\r\n0\r\n\r\n"),
    "a chunk longer than it says": posted(CHUNKED, body=b"2\r\n{}}\r\n0\r\n\r\n"),
    "a chunk that wraps around": posted(CHUNKED, body=b"10000000000000002\r\n{}\r\n0\r\n\r\n"),
    "a chunk that ends with a bare LF": posted(CHUNKED, body=b"2\r\n{}\n0\r\n\r\n"),
    "a folded header": head(GET, HOST, b"X-A: b", b" c"),
    "a folded Host": head(GET, b"Host:", b" localhost"),
    "a NUL in a value": head(GET, HOST, b"X-A: a\0b"),
    "a CR in a value": head(GET, HOST, b"X-A: a\rb"),
    "a LF in a value": head(GET, HOST, b"X-A: a\nX-B: b"),
    "a control character in a value": head(GET, HOST, b"X-A: a\x01b"),
    "a space in a name": head(GET, HOST, b"X A: b"),
    "no name": head(GET, HOST, b": b"),
    "no colon": head(GET, HOST, b"X-A"),
    "bare LFs": b"GET /healthz HTTP/1.1\nHost: localhost\n\n",
    "another server's path": head(b"GET http://localhost/healthz HTTP/1.1", HOST),
    "a tunnel": head(b"CONNECT localhost:80 HTTP/1.1", HOST) + HIDDEN,
    "a tunnel to a path": head(b"CONNECT /healthz HTTP/1.1", HOST) + HIDDEN,
    "a relative path": head(b"GET healthz HTTP/1.1", HOST),
    "a fragment": head(b"GET /healthz#a HTTP/1.1", HOST),
    "a space in the path": head(b"GET /heal thz HTTP/1.1", HOST),
    "a NUL in the path": head(b"GET /healthz\0 HTTP/1.1", HOST),
    "bytes in the path that are no text": head(b"GET /\xe9 HTTP/1.1", HOST),
    "no method": head(b" /healthz HTTP/1.1", HOST),
    "an unknown method": head(b"FROB /healthz HTTP/1.1", HOST),
    "a method in small letters": head(b"get /healthz HTTP/1.1", HOST),
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/2.0": head(b"GET /healthz HTTP/2.0", HOST),
    "HTTP/1.11": head(b"GET /healthz HTTP/1.11", HOST),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303"),
}


async def spoken(server: Served, *parts: bytes) -> bytes:
    """All that the server says to these bytes, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def statuses(answers: bytes) -> list[bytes]:
    return re.findall(rb"HTTP/1\.1 (\d{3}) ", answers)


def test_what_could_be_taken_for_another_request_is_refused_and_closed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            said = {name: await spoken(server, sent) for name, sent in REFUSED.items()}
            wrong = {name: answer for name, answer in said.items() if statuses(answer) != [b"400"]}
            assert not wrong
            assert all(b"connection: close" in answer for answer in said.values())
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


def test_it_is_refused_too_when_it_comes_byte_by_byte(db: SessionDB, wait: Wait) -> None:
    names = (
        "a length and chunks",
        "two codings in two lines",
        "a bad chunk",
        "a tunnel to a path",
        "two Hosts",
    )

    async def scenario() -> None:
        async with served(db) as server:
            for name in names:
                sent = REFUSED[name]
                said = await spoken(server, *(sent[at : at + 1] for at in range(len(sent))))
                assert statuses(said) in ([b"400"], []), name  # it may be closed before all is sent
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


@pytest.mark.parametrize(
    "sent",
    [
        head(GET, HOST, b"X-A: " + b"a" * MOST_HEAD),
        head(GET, HOST, *(b"X-%d: %s" % (each, b"a" * 90) for each in range(MOST_HEAD // 90))),
        head(b"GET /healthz?" + b"a" * MOST_HEAD + b" HTTP/1.1", HOST),
        GET + b"\r\n" + HOST + b"\r\nX-A: " + b"a" * (MOST_HEAD + 1),
        GET + b"\r\n" + b"X: a\r\n" * (MOST_HEAD // 6 + 1),
        b"GET /" + b"a" * (MOST_HEAD + 1),
        b"\r\n" * MOST_HEAD,
    ],
    ids=["long", "many", "path", "long, no end", "many, no end", "path, no end", "nothing"],
)
def test_a_head_that_is_too_large_is_refused_whole_or_not(db: SessionDB, wait: Wait, sent: bytes) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            for parts in ([sent], [sent[at : at + 5000] for at in range(0, len(sent), 5000)]):
                said = await spoken(server, *parts)
                assert statuses(said) in ([b"431"], [])  # what is still sent may wipe the answer away
            large = head(GET, HOST, CLOSE, b"X-A: " + b"a" * (MOST_HEAD - 200))
            assert statuses(await spoken(server, large)) == [b"200"]

    wait(scenario())


@pytest.mark.parametrize("rest", [b"0\r\nX-A: ", b"2;a=", b"0\r\n" + b"X: a\r\n" * 10])
def test_the_framing_of_a_body_has_an_end(db: SessionDB, wait: Wait, rest: bytes) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(posted(CHUNKED, body=rest))
            sent, piece = 0, b"X: a\r\n" * 1000 if rest.endswith(b"\n") else b"a" * 6000
            with suppress(ConnectionError):
                while sent < 100 * MOST_HEAD and not reader.at_eof():
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
            assert sent < 100 * MOST_HEAD
            writer.close()
            assert (await server.http.get("/api/sessions")).json()["items"] == []

    wait(scenario())


def test_requests_that_come_together_are_answered_in_their_order(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            ids = [f"X-Request-ID: {name}".encode() for name in ("one", "two", "three")]
            made = b'{"title": "first"}'
            sent = (
                posted(b"Content-Length: %d" % len(made), ids[0], body=made)
                + head(b"GET /api/sessions HTTP/1.1", HOST, TOKEN_LINE, ids[1])
                + head(GET, HOST, ids[2], CLOSE)
            )
            for parts in ([sent], [sent[at : at + 7] for at in range(0, len(sent), 7)]):
                said = await spoken(server, *parts)
                assert statuses(said) == [b"201", b"200", b"200"]
                order = [said.index(b"x-request-id: " + each.split()[1]) for each in ids]
                assert order == sorted(order)
                assert b'"title":"first"' in said[order[1] : order[2]]

    wait(scenario())


@pytest.mark.parametrize("bad", [b"FROB\r\n\r\n", posted(CHUNKED, body=b"zz\r\n")])
def test_what_is_refused_waits_for_the_answers_before_it(db: SessionDB, wait: Wait, bad: bytes) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            said = await spoken(server, HIDDEN + head(GET, HOST) + bad + HIDDEN)
            assert statuses(said) == [b"201", b"200", b"400"]
            assert len((await server.http.get("/api/sessions")).json()["items"]) == 1

    wait(scenario())


def test_an_offer_to_upgrade_is_passed_over_and_the_request_answered(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            offer = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AA")
            body = json.dumps({"title": head(GET, HOST).decode()}).encode()
            asked = posted(*offer, b"Content-Length: %d" % len(body), body=b"")
            last = head(GET, HOST, CLOSE)
            for parts in ([asked + body + last], [asked, body, last], [asked + body[:5], body[5:] + last]):
                assert statuses(await spoken(server, *parts)) == [b"201", b"200"]
            socketed = (b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: AAAA")
            assert statuses(await spoken(server, head(GET, HOST, *socketed) * 3 + last)) == [b"200"] * 4
            titles = [each["title"] for each in (await server.http.get("/api/sessions")).json()["items"]]
            assert titles == [json.loads(body)["title"]] * 3

    wait(scenario())


def test_what_stands_behind_a_body_is_no_header(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            chunks = b"2\r\n{}\r\n0\r\n"
            forged = posted(CHUNKED, CLOSE, body=chunks + b"X-Request-ID: forged\r\n\r\n")
            said = await spoken(server, forged)
            assert statuses(said) == [b"201"]
            assert b"forged" not in said
            shown = chunks + TOKEN_LINE + b"\r\n\r\n"
            assert statuses(await spoken(server, head(POST, HOST, CHUNKED, CLOSE) + shown)) == [b"401"]

    wait(scenario())


def test_a_client_may_wait_before_it_sends_its_body(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(posted(b"Expect: 100-continue", b"Content-Length: 2", CLOSE, body=b""))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(b"{}")
            assert statuses(await reader.read()) == [b"201"]
            writer.close()
            large = posted(b"Expect: 100-continue", b"Content-Length: 900000000", body=b"")
            assert statuses(await spoken(server, large)) == [b"413"]
            old = posted(b"Expect: 100-continue", b"Content-Length: 2", body=b"{}")
            assert statuses(await spoken(server, old.replace(b"HTTP/1.1", b"HTTP/1.0"))) == [b"201"]

    wait(scenario())


def test_an_old_client_is_answered_and_closed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            assert statuses(await spoken(server, head(b"GET /healthz HTTP/1.0", HOST))) == [b"200"]
            assert statuses(await spoken(server, head(b"GET /healthz HTTP/1.0"))) == [b"421"]
            assert statuses(await spoken(server, head(b"GET /healthz HTTP/1.0", HOST, HOST))) == [b"400"]

    wait(scenario())


def test_spaces_around_a_value_are_not_part_of_it(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            padded = (b"Host: \t localhost \t ", TOKEN_LINE + b"\t", JSON_LINE, b"Content-Length: 2  ", CLOSE)
            assert statuses(await spoken(server, head(POST, *padded) + b"{}")) == [b"201"]

    wait(scenario())


def test_a_client_that_leaves_with_a_request_waiting_ends_its_stream(
    db: SessionDB, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            events = head(f"GET /api/sessions/{session}/events HTTP/1.1".encode(), HOST, TOKEN_LINE)
            writer.write(events + head(GET, HOST))
            await until(lambda: server.web.streams.open == 1)
            writer.close()
            await until(lambda: server.web.streams.open == 0)

    monkeypatch.setattr(streams, "PING_SECONDS", 0.05)
    wait(scenario())


def test_a_client_that_takes_nothing_of_a_large_answer_is_left(
    db: SessionDB, wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with served(db, ["w" * 20_000_000], settings=WebSettings(client_timeout_s=0.3)) as server:
            session = await server.begin()
            await server.send(session, "speak")
            await server.until(session, "TurnCompleted", after=0)
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            with client:
                await loop.sock_connect(client, ("127.0.0.1", server.port))
                place = f"GET /api/sessions/{session}/export HTTP/1.1".encode()
                await loop.sock_sendall(client, head(place, HOST, TOKEN_LINE))
                await until(lambda: "web.reader_left" in caplog.messages)
                taken = 0
                with suppress(ConnectionError):
                    while piece := await loop.sock_recv(client, 1_000_000):
                        taken += len(piece)
                assert taken < 20_000_000

    wait(scenario())
