"""An answer that is let gather: nothing of it is lost or late, and nothing waits for nobody."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx2
import pytest

from holdfast.models.http_connection import MAX_UNREAD_BYTES
from holdfast.models.stream_transport import Endpoint, Exchange, Timeouts
from tests.models.model_fixtures import run
from tests.models.test_stream_transport import OK, Serve, Server

T = TypeVar("T")
ASK = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
APART, GATHERED = 0.01, 0.3
LONG = 3600.0
either_way = pytest.mark.parametrize("secure", [False, True], ids=["plain", "TLS"])


def exchanging(
    serve: Serve,
    talk: Callable[[Exchange, Callable[[], Awaitable[Exchange]], Server], Awaitable[T]],
    *,
    seconds: float = 5.0,
    secure: bool = False,
) -> T:
    """Ask once and talk; more can be asked on the way."""

    async def scenario() -> T:
        server = Server(serve)
        async with server.listening(secure=secure) as (port, wire):
            endpoint = Endpoint("https" if secure else "http", "127.0.0.1", port)

            async def ask() -> Exchange:
                return await wire.exchange(endpoint, ASK, b"", Timeouts(5.0, seconds))

            return await talk(await ask(), ask, server)

    return run(scenario())


def telling(said: asyncio.Event, *more: bytes, end: bool = True) -> Serve:
    """A server that says one word, and once it was heard the others, each by itself."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 6\r\n\r\n1")
        await said.wait()
        gone = asyncio.ensure_future(reader.read())
        for each in more:
            writer.write(each)
            await asyncio.wait({gone}, timeout=APART)
        if not end:
            await gone
        gone.cancel()

    return serve


@either_way
def test_what_comes_meanwhile_is_read_in_one_go(secure: bool) -> None:
    heard = asyncio.Event()

    async def talk(exchange: Exchange, *_: object) -> list[bytes]:
        read = [await exchange.read()]
        exchange.pause_reading(GATHERED)
        heard.set()
        read += [await exchange.read(), await exchange.read()]
        exchange.close()
        return read

    serve = telling(heard, b"2", b"3", b"4", b"5", b"6", end=False)
    assert exchanging(serve, talk, secure=secure) == [b"1", b"23456", b""]


@either_way
def test_a_server_that_breaks_off_meanwhile_is_noticed_after_what_it_said(secure: bool) -> None:
    heard = asyncio.Event()

    async def talk(exchange: Exchange, *_: object) -> bytes:
        await exchange.read()
        exchange.pause_reading(GATHERED)
        heard.set()
        rest = await exchange.read()
        with pytest.raises(httpx2.RemoteProtocolError):
            await exchange.read()
        exchange.close()
        return rest

    assert exchanging(telling(heard, b"2", b"3"), talk, secure=secure) == b"23"


def test_only_the_time_in_which_the_server_could_be_heard_counts_as_its_silence() -> None:
    heard = asyncio.Event()

    async def talk(exchange: Exchange, *_: object) -> bytes:
        await exchange.read()
        exchange.pause_reading(GATHERED)
        heard.set()
        rest = await exchange.read()
        with pytest.raises(httpx2.ReadTimeout):
            await exchange.read()
        exchange.close()
        return rest

    assert exchanging(telling(heard, b"2", end=False), talk, seconds=GATHERED / 3) == b"2"


@pytest.mark.clause("I6")
def test_an_answer_given_up_meanwhile_is_closed_at_once() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 6\r\n\r\n1")
        try:
            await reader.read()
        finally:
            gone.set()

    async def talk(exchange: Exchange, *_: object) -> None:
        await exchange.read()
        exchange.pause_reading(LONG)
        reading = asyncio.ensure_future(exchange.read())
        await asyncio.wait({reading}, timeout=APART)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        exchange.close()
        await asyncio.wait_for(gone.wait(), 1)

    exchanging(serve, talk)


def test_a_connection_kept_after_an_answer_that_nobody_read_still_hears_of_its_end() -> None:
    """The answer came whole, but so much of it that no more was taken from the network."""
    size, closed = MAX_UNREAD_BYTES + 1, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + f"content-length: {size}\r\n\r\n".encode() + b"x" * size)
        await writer.drain()
        closed.set()

    async def talk(exchange: Exchange, ask: Callable[[], Awaitable[Exchange]], server: Server) -> int:
        await closed.wait()
        others = [await ask() for _ in range(2)]
        await whole(others[0])  # by its end the first answer has come whole
        exchange.close()
        await whole(others[1])  # and by this one the end of its connection
        others.append(await ask())
        for each in others:
            each.close()
        return server.connections

    assert exchanging(serve, talk) == 4


async def whole(exchange: Exchange) -> None:
    while await exchange.read():
        pass
