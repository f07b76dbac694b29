"""What a client may ask for: so many requests, so large a body, so much time, so many streams."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import httpx2
import pytest

from holdfast.core.settings import WebSettings
from holdfast.sessions import SessionDB
from holdfast.web.limits import MEGABYTE
from tests.agent.agent_fixtures import until
from tests.web.api.api_server import TOKEN, served

Wait = Callable[[Awaitable[Any]], Any]


@pytest.fixture
def db(in_memory: SessionDB) -> SessionDB:
    """Limits do not depend on the engine of the store."""
    return in_memory


def test_a_body_that_is_too_large_is_refused_by_what_comes_not_by_what_is_said(
    db: SessionDB, wait: Wait
) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        yield b'{"title": "'
        for _ in range(4000):
            sent += 1
            yield b"x" * 100_000

    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            usual = f"/api/sessions/{session}"
            said = await server.http.patch(usual, content=b"x" * (MEGABYTE + 1))
            assert (said.status_code, said.json()["reason"]) == (413, "TooLarge")
            headers = {"Content-Type": "application/json"}
            with suppress(httpx2.TransportError):  # it may be closed in the middle of the body
                come = await server.http.patch(usual, content=endless(), headers=headers)
                assert come.status_code == 413
            assert sent < 3000
            assert (await server.http.get(usual)).json()["title"] is None

    wait(scenario())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"\xff\xfe{}", "application/json"),
        (b'{"text": 1}', "application/json"),
        (b'{"text": "hi", "txet": "hi"}', "application/json"),
        (b"[" * 50_000, "application/json"),
        (b"text=hi", "application/x-www-form-urlencoded"),
        (b'{"text": "hi"}', "text/plain"),
        (b'{"text": ""}', "application/json"),
        (b'{"content": [{"type": "text"}]}', "application/json"),
        (b'{"text": "a\\ud800b\\u0000"}', "application/json"),
    ],
)
def test_a_malformed_body_is_a_problem_with_a_reason_and_a_next_step(
    db: SessionDB, wait: Wait, body: bytes, kind: str
) -> None:
    async def scenario() -> None:
        async with served(db) as server:
            session = await server.begin()
            place = f"/api/sessions/{session}/send"
            refused = await server.http.post(place, content=body, headers={"Content-Type": kind})
            assert 400 <= refused.status_code < 500, refused.text
            assert refused.headers["content-type"] == "application/problem+json"
            problem = refused.json()
            assert problem["status"] == refused.status_code
            assert problem["reason"]
            assert problem["next"]
            assert problem["request_id"] == refused.headers["x-request-id"]
            assert await server.said(session) == []

    wait(scenario())


def test_a_client_that_asks_too_often_is_told_when_to_come_back(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, settings=WebSettings(requests_per_s=1)) as server:
            answers = [await server.http.get("/healthz") for _ in range(12)]
            refused = [each for each in answers if each.status_code == 429]
            assert refused
            assert answers[0].status_code == 200
            assert int(refused[0].headers["retry-after"]) >= 1
            assert refused[0].json()["reason"] == "TooManyRequests"

    wait(scenario())


@pytest.mark.parametrize(
    "begun", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "]
)
def test_a_request_that_comes_drop_by_drop_is_given_up(db: SessionDB, wait: Wait, begun: bytes) -> None:
    async def scenario() -> None:
        async with served(db, settings=WebSettings(client_timeout_s=0.3)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(begun)
            async with asyncio.timeout(15):
                assert await reader.read() == b""
            writer.close()

    wait(scenario())


def test_a_second_request_that_comes_drop_by_drop_is_given_up_too(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, settings=WebSettings(client_timeout_s=0.3)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert await reader.readuntil(b'{"status":"ok"}')
            writer.write(b"GET /healthz HT")
            async with asyncio.timeout(15):
                assert await reader.read() == b""
            writer.close()

    wait(scenario())


def test_a_body_that_comes_drop_by_drop_is_given_up(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, settings=WebSettings(client_timeout_s=0.3)) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            head = f"POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode())
            async with asyncio.timeout(15):
                answer = await reader.read()
            writer.close()
            assert b" 408 " in answer.partition(b"\r\n")[0]
            assert b"TooSlow" in answer

    wait(scenario())


def test_a_client_that_reads_nothing_is_left_and_slows_nobody(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        settings = WebSettings(client_timeout_s=0.5)
        async with served(db, ["w" * 10_000_000], settings=settings) as server:
            session = await server.begin()
            # With a small buffer of its own, so that the system can't take it all on the client's behalf.
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
            reader, writer = await asyncio.open_connection(sock=client, limit=1)
            head = f"GET /api/sessions/{session}/events HTTP/1.1\r\nHost: localhost\r\n"
            writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
            await until(lambda: server.web.streams.open == 1)
            await server.send(session, "speak")
            await until(lambda: server.web.streams.open == 0)
            assert not reader.at_eof()
            writer.close()
            assert (await server.http.post(f"/api/sessions/{session}/interrupt")).status_code == 200

    wait(scenario())


def test_there_are_only_so_many_streams(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, settings=WebSettings(streams=1)) as server:
            session = await server.begin()
            async with server.events(session) as events:
                await anext(events)
                refused = await server.http.get(f"/api/sessions/{session}/events")
                assert (refused.status_code, refused.json()["reason"]) == (503, "TooManyStreams")
            await until(lambda: server.web.streams.open == 0)

    wait(scenario())
