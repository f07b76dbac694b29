"""`StreamTransport`: HTTP/1.1 to a model's server, for many answers that stream at once.

httpx's own transport checks every connection for each request, and passes each chunk of a body through six
layers. This one returns all bytes since the last read, and can wait until more have arrived: a busy program
then does less work for each token. httpx uses it as a transport, which keeps redirects, cookies and
compression; `post_client.py` reads the answers. Read `http_connection.py` first.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx2

from holdfast.models.http_connection import HttpConnection
from holdfast.process import NameLookup, is_scarce

if TYPE_CHECKING:
    import ssl

EXCHANGE = "holdfast_exchange"
"""The extension of a response that holds its `Exchange`."""
MAX_IDLE = 256
RESERVE_SHARE = 0.5
"""The share of the descriptor reserve that must stay free for the store and for tools."""
IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request. Servers close idle connections soon after."""


class Endpoint(NamedTuple):
    """The scheme, host and port of a server."""

    scheme: str
    host: str
    port: int


class Timeouts(NamedTuple):
    """How long to wait for a connection and for the next data, in seconds."""

    connect: float | None
    read: float | None


class StreamTransport(httpx2.AsyncBaseTransport):
    """Opens connections to servers, and keeps idle ones for a short time."""

    def __init__(self, certificates: "ssl.SSLContext", names: NameLookup | None = None) -> None:
        """All connections share `certificates`: to load them takes longer than a request."""
        self._certificates = certificates
        self._names = names or NameLookup()
        self._idle: dict[Endpoint, list[HttpConnection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        given: dict[str, float | None] = request.extensions.get("timeout", {})
        timeouts = Timeouts(given.get("connect"), given.get("read"))
        body = await request.aread()
        return (await self.exchange(endpoint_of(request.url), _head(request), body, timeouts)).response()

    async def exchange(self, endpoint: Endpoint, head: bytes, body: bytes, timeouts: Timeouts) -> "Exchange":
        """Send a request, and wait for the head of its answer."""
        connection = self._idle_connection(endpoint) or await self._connected(endpoint, timeouts.connect)
        try:
            connection.send(head, body)
            while not connection.has_head:
                await connection.wait_for_data(timeouts.read)
        except BaseException:
            connection.close()
            raise
        return Exchange(self, endpoint, connection, timeouts.read)

    async def aclose(self) -> None:
        for kept in self._idle.values():
            for each in kept:
                each.close()
        self._idle.clear()

    def keep(self, endpoint: Endpoint, connection: HttpConnection) -> None:
        """Keep the connection after an exchange if it can be used again, or else close it."""
        kept = self._idle.setdefault(endpoint, [])
        if connection.can_be_kept and len(kept) < MAX_IDLE and not is_scarce(connection.descriptor):
            connection.become_idle()
            kept.append(connection)
        else:
            connection.close()

    def _idle_connection(self, endpoint: Endpoint) -> HttpConnection | None:
        kept, loop = self._idle.get(endpoint, []), asyncio.get_running_loop()
        while kept:
            connection = kept.pop()
            fresh = connection.loop is loop and loop.time() - connection.idle_since < IDLE_SECONDS
            if fresh and connection.is_open:
                return connection
            if connection.loop is loop:
                connection.close()
        return None

    async def _connected(self, endpoint: Endpoint, seconds: float | None) -> HttpConnection:
        secure: dict[str, Any] = {}
        if endpoint.scheme == "https":
            secure = {"ssl": self._certificates, "server_hostname": endpoint.host}
        waiting_for = f"the address of {endpoint.host}"
        try:
            async with asyncio.timeout(seconds):
                addresses = await self._names.addresses(endpoint.host, endpoint.port)
                waiting_for = f"a connection to {endpoint.host}"
                connection = await _first_connection(addresses, endpoint.port, secure)
        except TimeoutError as cause:
            raise httpx2.ConnectTimeout(f"{waiting_for} did not come in time") from cause
        except (OSError, UnicodeError) as cause:
            raise httpx2.ConnectError(str(cause)) from cause
        if is_scarce(connection.descriptor, RESERVE_SHARE):
            connection.close()
            raise httpx2.ConnectError("too many files and sockets are open for another connection")
        return connection


class Exchange:
    """An answer whose head has arrived. Its owner closes it."""

    def __init__(
        self,
        transport: StreamTransport,
        endpoint: Endpoint,
        connection: HttpConnection,
        seconds: float | None,
    ) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self._transport = transport
        self._endpoint = endpoint
        self._connection: HttpConnection | None = connection
        self._seconds = seconds

    async def read(self) -> bytes:
        """Wait for the next bytes of the body; empty at its end."""
        while (connection := self._connection) is not None:
            if part := connection.take():
                return part
            if connection.is_whole:
                break
            await connection.wait_for_data(self._seconds)
        return b""

    def pause_reading(self, seconds: float) -> None:
        """Wait for this time before the next read, so that more data arrives."""
        if self._connection is not None:
            self._connection.pause_reading(seconds)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.keep(self._endpoint, connection)

    def response(self) -> httpx2.Response:
        """The answer as an httpx response. httpx then closes it."""
        return httpx2.Response(
            self.status,
            headers=self.headers,
            stream=_Body(self),
            extensions={"http_version": b"HTTP/1.1", EXCHANGE: self},
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


async def _first_connection(addresses: list[str], port: int, secure: dict[str, Any]) -> HttpConnection:
    """A connection to the first address that accepts one."""
    loop, failures = asyncio.get_running_loop(), []
    for address in addresses:
        try:
            # An IP address, because asyncio would look up a name on threads that the interpreter joins.
            return (await loop.create_connection(HttpConnection, address, port, **secure))[1]
        except OSError as cause:
            failures.append(cause)
    raise failures[0] if len(failures) == 1 else OSError("; ".join(map(str, failures)) or "no address")


def endpoint_of(url: httpx2.URL) -> Endpoint:
    default = 443 if url.scheme == "https" else 80
    return Endpoint(url.scheme, url.host, url.port or default)


def _head(request: httpx2.Request) -> bytes:
    lines = [request.method.encode(), b" ", request.url.raw_path, b" HTTP/1.1\r\n"]
    for name, value in request.headers.raw:
        lines += [name, b": ", value, b"\r\n"]
    return b"".join([*lines, b"\r\n"])
