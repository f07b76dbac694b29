"""`Wire`: HTTP/1.1 to a model's server, for many answers that stream at once.

httpx's own transport looks at every connection for each request, and hands each chunk of a body through six
layers. This one reads with a parser in C, and gives all that has come since it was last asked: a busy program
does less for each token. Redirects, cookies and compression stay httpx's.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

import httptools
import httpx2

if TYPE_CHECKING:
    import ssl

MOST_IDLE = 32
IDLE_SECONDS = 5.0
"""How long a connection is kept for the next request; servers close theirs soon after."""
MOST_UNREAD = 1_000_000
"""Bytes of a body that may wait for their reader before no more are taken from the network."""
INTERIM = range(100, 200)


class Connection(asyncio.Protocol):
    """One connection: a request, then its answer as it comes; again while both sides keep it open."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_head = False
        self.is_whole = False
        self._is_to_be_kept = False
        self.failure: Exception | None = None
        self._unread: list[bytes] = []
        self._size = 0
        self._woken: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def can_be_kept(self) -> bool:
        return self.is_whole and self.is_open and self._is_to_be_kept

    def send(self, head: bytes, body: bytes) -> None:
        """Begin another exchange."""
        self._begin()
        if self._transport is not None:
            self._transport.resume_reading()
            self._transport.write(head + body)

    def take(self) -> bytes:
        """What has come of the body since the last time."""
        taken, self._unread = b"".join(self._unread), []
        if self._size > MOST_UNREAD and self._transport is not None:
            self._transport.resume_reading()
        self._size = 0
        return taken

    async def more(self, seconds: float | None) -> None:
        """Wait until something has come; raises httpx's error when nothing does."""
        if self.failure is None:
            self._woken = self.loop.create_future()
            waiting = None if seconds is None else self.loop.call_later(seconds, self._give_up)
            try:
                await self._woken
            finally:
                self._woken = None
                if waiting is not None:
                    waiting.cancel()
        if self.failure is not None and not self._unread:
            raise self.failure

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # as asyncio calls it

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.is_whole:
            self.close()  # nothing was asked: who sends now is not in step with us
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as cause:
            self._fail(httpx2.RemoteProtocolError(f"the server's answer can't be read: {cause}"))
            self.close()
            return
        if self._size > MOST_UNREAD and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.has_head and exc is None and self._ends_with_the_connection():
            self.is_whole = True
        if not self.is_whole:
            said = str(exc) if exc is not None else "the server closed the connection in mid-answer"
            self._fail(httpx2.ReadError(said) if exc else httpx2.RemoteProtocolError(said))
        self._wake()

    # as the parser calls it

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self.has_head = self.status not in INTERIM

    def on_body(self, body: bytes) -> None:
        self._unread.append(body)
        self._size += len(body)

    def on_message_complete(self) -> None:
        if self.has_head:
            self.is_whole = True
            self._is_to_be_kept = bool(self._parser.should_keep_alive())
        else:
            self.headers.clear()  # an interim answer: the one that counts follows

    # inside

    def _ends_with_the_connection(self) -> bool:
        names = {name.lower() for name, _ in self.headers}
        return not names & {b"content-length", b"transfer-encoding"}

    def _give_up(self) -> None:
        self._fail(httpx2.ReadTimeout("nothing came in time"))
        self.close()
        self._wake()

    def _fail(self, failure: Exception) -> None:
        self.failure = self.failure or failure

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class Wire(httpx2.AsyncBaseTransport):
    """Connections to servers, the idle ones kept for a moment."""

    def __init__(self, certificates: "ssl.SSLContext") -> None:
        """`certificates` serve all connections: reading them takes longer than a request."""
        self._certificates = certificates
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        patience: dict[str, float | None] = request.extensions.get("timeout", {})
        body = await request.aread()
        place = _place(request.url)
        connection = self._kept(place) or await self._connected(place, patience.get("connect"))
        try:
            connection.send(_head(request), body)
            while not connection.has_head:
                await connection.more(patience.get("read"))
        except BaseException:
            connection.close()
            raise
        return httpx2.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(self, place, connection, patience.get("read")),
            extensions={"http_version": b"HTTP/1.1"},
        )

    async def aclose(self) -> None:
        for kept in self._idle.values():
            for each in kept:
                each.close()
        self._idle.clear()

    def keep(self, place: tuple[str, str, int], connection: Connection) -> None:
        """An exchange is over: keep the connection if it can serve another, else close it."""
        kept = self._idle.setdefault(place, [])
        if connection.can_be_kept and len(kept) < MOST_IDLE:
            connection.idle_since = connection.loop.time()
            kept.append(connection)
        else:
            connection.close()

    def _kept(self, place: tuple[str, str, int]) -> Connection | None:
        kept, loop = self._idle.get(place, []), asyncio.get_running_loop()
        while kept:
            connection = kept.pop()
            fresh = connection.loop is loop and loop.time() - connection.idle_since < IDLE_SECONDS
            if fresh and connection.is_open:
                return connection
            if connection.loop is loop:
                connection.close()
        return None

    async def _connected(self, place: tuple[str, str, int], seconds: float | None) -> Connection:
        scheme, host, port = place
        secure: dict[str, Any] = {"ssl": self._certificates} if scheme == "https" else {}
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(Connection, host, port, **secure)
        except TimeoutError as cause:
            raise httpx2.ConnectTimeout(f"no connection to {host} in time") from cause
        except OSError as cause:
            raise httpx2.ConnectError(str(cause)) from cause
        return connection


class _Body(httpx2.AsyncByteStream):
    """An answer's body, as much at a time as has come."""

    def __init__(
        self, wire: Wire, place: tuple[str, str, int], connection: Connection, seconds: float | None
    ) -> None:
        self._wire = wire
        self._place = place
        self._connection: Connection | None = connection
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (connection := self._connection) is not None:
            if part := connection.take():
                yield part
            elif connection.is_whole:
                return
            else:
                await connection.more(self._seconds)

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._wire.keep(self._place, connection)


def _place(url: httpx2.URL) -> tuple[str, str, int]:
    default = 443 if url.scheme == "https" else 80
    return url.scheme, url.host, url.port or default


def _head(request: httpx2.Request) -> bytes:
    lines = [request.method.encode(), b" ", request.url.raw_path, b" HTTP/1.1\r\n"]
    for name, value in request.headers.raw:
        lines += [name, b": ", value, b"\r\n"]
    return b"".join([*lines, b"\r\n"])
