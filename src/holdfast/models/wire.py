"""`Wire`: HTTP/1.1 to a model's server, for many answers that stream at once.

httpx's own transport looks at every connection for each request, and hands each chunk of a body through six
layers. This one gives all that has come since it was last asked, and can let it gather: a busy program does
less for each token. It serves httpx as a transport, with which redirects, cookies and compression stay, and
`posting.py` straight. Read `connection.py` first.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from holdfast.models.connection import Connection

if TYPE_CHECKING:
    import ssl

MOST_IDLE = 256
IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request; servers close theirs soon after."""


class Place(NamedTuple):
    """Where a server listens."""

    scheme: str
    host: str
    port: int


class Patience(NamedTuple):
    """How long to wait for a connection, and for a silent server, in seconds."""

    connect: float | None
    read: float | None


class Wire(httpx2.AsyncBaseTransport):
    """Connections to servers, the idle ones kept for a moment."""

    def __init__(self, certificates: "ssl.SSLContext") -> None:
        """`certificates` serve all connections: reading them takes longer than a request."""
        self._certificates = certificates
        self._idle: dict[Place, list[Connection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        given: dict[str, float | None] = request.extensions.get("timeout", {})
        patience = Patience(given.get("connect"), given.get("read"))
        body = await request.aread()
        return (await self.exchange(place_of(request.url), _head(request), body, patience)).response()

    async def exchange(self, place: Place, head: bytes, body: bytes, patience: Patience) -> "Exchange":
        """Send a request, and wait for the head of its answer."""
        connection = self._kept(place) or await self._connected(place, patience.connect)
        try:
            connection.send(head, body)
            while not connection.has_head:
                await connection.more(patience.read)
        except BaseException:
            connection.close()
            raise
        return Exchange(self, place, connection, patience.read)

    async def aclose(self) -> None:
        for kept in self._idle.values():
            for each in kept:
                each.close()
        self._idle.clear()

    def keep(self, place: Place, connection: Connection) -> None:
        """An exchange is over: keep the connection if it can serve another, else close it."""
        kept = self._idle.setdefault(place, [])
        if connection.can_be_kept and len(kept) < MOST_IDLE:
            connection.rest()
            kept.append(connection)
        else:
            connection.close()

    def _kept(self, place: Place) -> Connection | None:
        kept, loop = self._idle.get(place, []), asyncio.get_running_loop()
        while kept:
            connection = kept.pop()
            fresh = connection.loop is loop and loop.time() - connection.idle_since < IDLE_SECONDS
            if fresh and connection.is_open:
                return connection
            if connection.loop is loop:
                connection.close()
        return None

    async def _connected(self, place: Place, seconds: float | None) -> Connection:
        secure: dict[str, Any] = {"ssl": self._certificates} if place.scheme == "https" else {}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(Connection, place.host, place.port, **secure)
        except TimeoutError as cause:
            raise httpx2.ConnectTimeout(f"no connection to {place.host} in time") from cause
        except OSError as cause:
            raise httpx2.ConnectError(str(cause)) from cause
        return connection


class Exchange:
    """An answer whose head has come. Its owner closes it."""

    def __init__(self, wire: Wire, place: Place, connection: Connection, seconds: float | None) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._wire = wire
        self._place = place
        self._connection: Connection | None = connection
        self._seconds = seconds

    async def read(self) -> bytes:
        """What has come of the body since the last time, once there is anything; nothing at its end."""
        while (connection := self._connection) is not None:
            if part := connection.take():
                return part
            if connection.is_whole:
                break
            await connection.more(self._seconds)
        return b""

    def hold(self, seconds: float) -> None:
        """Let more come for so long before the next reading."""
        if self._connection is not None:
            self._connection.hold(seconds)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire.keep(self._place, connection)

    def response(self, request: httpx2.Request | None = None) -> httpx2.Response:
        """The same for httpx, which closes it."""
        return httpx2.Response(
            self.status,
            headers=self.headers,
            stream=_Body(self),
            request=request,
            extensions={"http_version": b"HTTP/1.1"},
        )


class _Body(httpx2.AsyncByteStream):
    """An answer's body, as httpx reads it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while part := await self._exchange.read():
            yield part

    async def aclose(self) -> None:
        self._exchange.close()


def place_of(url: httpx2.URL) -> Place:
    default = 443 if url.scheme == "https" else 80
    return Place(url.scheme, url.host, url.port or default)


def _head(request: httpx2.Request) -> bytes:
    lines = [request.method.encode(), b" ", request.url.raw_path, b" HTTP/1.1\r\n"]
    for name, value in request.headers.raw:
        lines += [name, b": ", value, b"\r\n"]
    return b"".join([*lines, b"\r\n"])
