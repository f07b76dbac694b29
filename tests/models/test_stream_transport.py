"""HTTP to a model's server: whole and broken answers, connections kept and given up, many at once, TLS."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest

from holdfast.models.http_connection import MAX_UNREAD_BYTES
from holdfast.models.stream_transport import StreamTransport
from tests.models.model_fixtures import run

T = TypeVar("T")
CERTIFICATE = Path(__file__).parent / "certificates" / "localhost.pem"
OK = b"HTTP/1.1 200 OK\r\n"
TWO = OK + b"content-length: 2\r\n\r\nhi"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def saying(*answers: bytes, close: bool = True) -> Serve:
    """A server that gives these answers on one connection, one a request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
        if close:
            await writer.drain()
            writer.close()
        else:
            await reader.read()

    return serve


class Server:
    """A server on loopback that counts its connections."""

    def __init__(self, serve: Serve) -> None:
        self.connections = 0
        self._serve = serve

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            await self._serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @asynccontextmanager
    async def listening(self, *, secure: bool) -> AsyncGenerator[tuple[int, StreamTransport], None]:
        """Its port while it listens, and a wire that trusts it."""
        context = None
        if secure:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(CERTIFICATE)
        async with await asyncio.start_server(self.answer, "127.0.0.1", 0, ssl=context) as listening:
            wire = StreamTransport(ssl.create_default_context(cafile=str(CERTIFICATE)))
            try:
                yield listening.sockets[0].getsockname()[1], wire
            finally:
                await wire.aclose()


def talking(
    serve: Serve,
    talk: Callable[[httpx2.AsyncClient, str, Server], Awaitable[T]],
    *,
    seconds: float = 5.0,
    secure: bool = False,
) -> T:
    async def scenario() -> T:
        server = Server(serve)
        async with (
            server.listening(secure=secure) as (port, wire),
            httpx2.AsyncClient(transport=wire, timeout=seconds) as client,
        ):
            return await talk(client, f"http{'s' if secure else ''}://127.0.0.1:{port}/v1", server)

    return run(scenario())


def fetched(serve: Serve, *, seconds: float = 5.0, secure: bool = False) -> bytes:
    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> bytes:
        return (await client.get(url)).content

    return talking(serve, talk, seconds=seconds, secure=secure)


@pytest.mark.parametrize(
    "said",
    [
        TWO,
        OK + b"transfer-encoding: chunked\r\n\r\n1\r\nh\r\n1\r\ni\r\n0\r\n\r\n",
        OK + b"\r\nhi",
        b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n" + TWO,
        b"HTTP/1.1 100 Continue\r\n\r\n" + TWO,
    ],
    ids=["its length said", "chunked", "until the end of the connection", "early hints", "continue"],
)
def test_an_answer_comes_whole(said: bytes) -> None:
    assert fetched(saying(said)) == b"hi"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"HTTP/1.1 200",
        OK + b"content-length: 9\r\n\r\nhi",
        OK + b"transfer-encoding: chunked\r\n\r\n9\r\nhi",
        b"not HTTP at all\r\n\r\n",
        OK + b"transfer-encoding: chunked\r\n\r\nnot a length\r\n",
    ],
    ids=["nothing", "in its head", "in its body", "in a chunk", "no HTTP", "no chunk"],
)
def test_an_answer_that_breaks_off_or_cannot_be_read_is_no_answer(said: bytes) -> None:
    with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
        fetched(saying(said))


def test_headers_and_the_status_are_given_as_they_came() -> None:
    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> tuple[int, str]:
        answer = await client.post(url, content=b"{}")
        return answer.status_code, answer.headers["Retry-After"]

    said = b"HTTP/1.1 429 Slow down\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n"
    assert talking(saying(said), talk) == (429, "7")


@pytest.mark.parametrize(
    ("said", "connections"),
    [(TWO, 1), (OK + b"connection: close\r\ncontent-length: 2\r\n\r\nhi", 3)],
    ids=["kept", "closed by the server's word"],
)
def test_a_connection_serves_the_next_request_unless_the_server_closes_it(
    said: bytes, connections: int
) -> None:
    async def talk(client: httpx2.AsyncClient, url: str, server: Server) -> int:
        for _ in range(3):
            assert (await client.get(url)).content == b"hi"
        return server.connections

    assert talking(saying(said, said, said, close=False), talk) == connections


def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(TWO)
        writer.close()
        await writer.wait_closed()
        closed.set()

    async def talk(client: httpx2.AsyncClient, url: str, server: Server) -> int:
        assert (await client.get(url)).content == b"hi"
        await closed.wait()
        async with httpx2.AsyncClient() as other:
            await other.get(url)  # by its end the first client has heard of the close
        assert (await client.get(url)).content == b"hi"
        return server.connections

    assert talking(serve, talk) == 3


def test_requests_beside_each_other_have_connections_of_their_own() -> None:
    together = asyncio.Barrier(3)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await together.wait()
        writer.write(TWO)

    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> list[bytes]:
        return [each.content for each in await asyncio.gather(*(client.get(url) for _ in range(3)))]

    assert talking(serve, talk) == [b"hi", b"hi", b"hi"]


@pytest.mark.parametrize("said", [b"", OK + b"content-length: 9\r\n\r\nhi"], ids=["before", "within"])
def test_a_silent_server_is_left_in_time(said: bytes) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        fetched(saying(said, close=False), seconds=0.05)


def test_nobody_there_is_said_by_name() -> None:
    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> None:
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://127.0.0.1:1/")

    talking(saying(TWO), talk)


def test_a_reader_that_takes_nothing_holds_the_server_back_and_loses_nothing() -> None:
    size = 20 * MAX_UNREAD_BYTES
    held_back = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + f"content-length: {size}\r\n\r\n".encode())
        for _ in range(20):
            writer.write(b"x" * MAX_UNREAD_BYTES)
            if writer.transport.get_write_buffer_size() > 10 * MAX_UNREAD_BYTES:
                held_back.set()
        await writer.drain()

    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> int:
        async with client.stream("GET", url) as answer:
            await held_back.wait()
            return len(await answer.aread())

    assert talking(serve, talk) == size


def test_a_secure_server_is_talked_to_and_a_stranger_is_not() -> None:
    assert fetched(saying(TWO), secure=True) == b"hi"

    async def talk(client: httpx2.AsyncClient, url: str, _: Server) -> None:
        async with httpx2.AsyncClient(transport=StreamTransport(ssl.create_default_context())) as wary:
            with pytest.raises(httpx2.ConnectError, match=r"(?i)certificate"):
                await wary.get(url)

    talking(saying(TWO), talk, secure=True)


def test_a_client_may_be_used_on_one_loop_after_another() -> None:
    wire = StreamTransport(ssl.create_default_context())
    client = httpx2.AsyncClient(transport=wire)

    async def scenario() -> bytes:
        listening = await asyncio.start_server(Server(saying(TWO, close=False)).answer, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        content = (await client.get(f"http://127.0.0.1:{port}/")).content
        listening.close()  # its end is not waited for: it would wait for the connection that is kept
        return content

    assert [run(scenario()), run(scenario())] == [b"hi", b"hi"]
