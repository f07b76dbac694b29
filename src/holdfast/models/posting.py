"""`Posting`: requests to one address of a model's server, and their answers as they come.

A stream of events that needs nothing of httpx is read straight from the `Wire`: that is the way of nearly
every answer, and httpx's layers cost as much again as all else. Behind a proxy, and for redirects, refusals,
compression and cookies, the answer is httpx's. Read `wire.py` first.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx2

from holdfast.models.wire import Exchange, Patience, Wire, place_of

EVENTS = b"text/event-stream"
NO_EVENTS = ("text/html", "application/json")


class Straight:
    """A stream of events, from the wire."""

    def __init__(self, exchange: Exchange) -> None:
        self.read = exchange.read
        self.hold = exchange.hold

    async def instead(self) -> None:
        """Nothing: it is a stream of events."""


class ByHttpx:
    """Whatever came, by way of httpx."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._content = response.aiter_bytes()
        self._pause = 0.0

    async def read(self) -> bytes:
        """What has come since the last time, once there is anything; nothing at the end."""
        pause, self._pause = self._pause, 0.0
        if pause:
            await asyncio.sleep(pause)
        return await anext(self._content, b"")

    def hold(self, seconds: float) -> None:
        """Let more come for so long before the next reading."""
        self._pause = seconds

    async def instead(self) -> httpx2.Response | None:
        """What came instead of a stream of events, whole."""
        kind = self._response.headers.get("content-type", "")
        if self._response.is_success and not kind.startswith(NO_EVENTS):
            return None
        await self._response.aread()
        return self._response


class Posting:
    """Posts to one address."""

    def __init__(self, client: httpx2.AsyncClient, address: str, wire: Wire | None) -> None:
        """`wire` is the client's own; None when a proxy may stand between."""
        self._client = client
        self._address = address
        url = httpx2.URL(address)
        self._place = place_of(url)
        # A name and a password in the address are made into a header by httpx.
        self._wire = None if url.userinfo else wire
        self._patience = Patience(client.timeout.connect, client.timeout.read)
        self._prepared: tuple[httpx2.Request, bytes] | None = None

    @asynccontextmanager
    async def post(self, content: bytes) -> AsyncGenerator[Straight | ByHttpx, None]:
        """Send this, and read the answer within."""
        if self._wire is not None:
            request, head = self._request()
            head += b"%d\r\n\r\n" % len(content)
            exchange = await self._wire.exchange(self._place, head, content, self._patience)
            try:
                if _is_plain(exchange):
                    yield Straight(exchange)
                    return
                response = exchange.response(request)
                self._client.cookies.extract_cookies(response)
                if not response.has_redirect_location:
                    async with aclosing(response):
                        yield ByHttpx(response)
                    return
            finally:
                exchange.close()
        async with self._client.stream("POST", self._address, content=content) as response:
            yield ByHttpx(response)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    def _request(self) -> tuple[httpx2.Request, bytes]:
        """The request as httpx makes it, and its head up to the length of what is sent."""
        if self._prepared is None or self._client.cookies:
            request = self._client.build_request("POST", self._address)
            lines = [b"POST ", request.url.raw_path, b" HTTP/1.1\r\n"]
            for name, value in request.headers.raw:
                if name.lower() != b"content-length":
                    lines += [name, b": ", value, b"\r\n"]
            self._prepared = request, b"".join([*lines, b"Content-Length: "])
        return self._prepared


def _is_plain(exchange: Exchange) -> bool:
    """Whether it is a stream of events that can be read as it is."""
    headers = {name.lower(): value for name, value in exchange.headers}
    as_it_is = headers.keys().isdisjoint((b"content-encoding", b"set-cookie"))
    return (
        exchange.status == httpx2.codes.OK
        and as_it_is
        and headers.get(b"content-type", b"").startswith(EVENTS)
    )
