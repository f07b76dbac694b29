"""`PostClient`: sends POST requests to one URL of a model's server, and streams the answers.

Nearly every answer is a plain stream of events. It is read directly from the `StreamTransport`, because the
layers of httpx would double the cost. Behind a proxy, and for redirects, errors, compression and cookies,
httpx reads the answer. Read `stream_transport.py` first.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import httpx2

from holdfast.models.stream_transport import Exchange, StreamTransport, Timeouts, endpoint_of

EVENTS = b"text/event-stream"
NO_EVENTS = ("text/html", "application/json")


class DirectStream:
    """A stream of events, read directly from the transport."""

    def __init__(self, exchange: Exchange) -> None:
        self.read = exchange.read
        self.pause_reading = exchange.pause_reading

    async def non_event_response(self) -> None:
        """None: this is a stream of events."""


class HttpxStream:
    """Any answer, read through httpx."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._content = response.aiter_bytes()
        self._pause = 0.0

    async def read(self) -> bytes:
        """Wait for the next bytes; empty at the end."""
        pause, self._pause = self._pause, 0.0
        if pause:
            await asyncio.sleep(pause)
        return await anext(self._content, b"")

    def pause_reading(self, seconds: float) -> None:
        """Wait for this time before the next read, so that more data arrives."""
        self._pause = seconds

    async def non_event_response(self) -> httpx2.Response | None:
        """The whole answer, if it is not a stream of events."""
        kind = self._response.headers.get("content-type", "")
        if self._response.is_success and not kind.startswith(NO_EVENTS):
            return None
        await self._response.aread()
        return self._response


class PostClient:
    """Sends requests to one URL."""

    def __init__(self, client: httpx2.AsyncClient, address: str, transport: StreamTransport | None) -> None:
        """`transport` is the client's own transport; None when a proxy may be used."""
        self._client = client
        self._address = address
        url = httpx2.URL(address)
        self._endpoint = endpoint_of(url)
        # httpx makes a header of a user name and a password in the URL.
        self._transport = None if url.userinfo else transport
        self._timeouts = Timeouts(client.timeout.connect, client.timeout.read)
        self._prepared: tuple[httpx2.Request, bytes] | None = None

    @asynccontextmanager
    async def post(self, content: bytes) -> AsyncGenerator[DirectStream | HttpxStream, None]:
        """Send a request; the body of the `with` statement reads the answer."""
        if self._transport is not None:
            request, head = self._request()
            head += b"%d\r\n\r\n" % len(content)
            exchange = await self._transport.exchange(self._endpoint, head, content, self._timeouts)
            try:
                if _is_plain(exchange):
                    yield DirectStream(exchange)
                    return
                response = exchange.response(request)
                self._client.cookies.extract_cookies(response)
                if not response.has_redirect_location:
                    async with aclosing(response):
                        yield HttpxStream(response)
                    return
            finally:
                exchange.close()
        async with self._client.stream("POST", self._address, content=content) as response:
            yield HttpxStream(response)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _request(self) -> tuple[httpx2.Request, bytes]:
        """The request as httpx makes it, and its head up to the value of Content-Length."""
        if self._prepared is None or self._client.cookies:
            request = self._client.build_request("POST", self._address)
            lines = [b"POST ", request.url.raw_path, b" HTTP/1.1\r\n"]
            for name, value in request.headers.raw:
                if name.lower() != b"content-length":
                    lines += [name, b": ", value, b"\r\n"]
            self._prepared = request, b"".join([*lines, b"Content-Length: "])
        return self._prepared


def _is_plain(exchange: Exchange) -> bool:
    """Whether the answer is a stream of events that needs no decoding."""
    headers = {name.lower(): value for name, value in exchange.headers}
    as_it_is = headers.keys().isdisjoint((b"content-encoding", b"set-cookie"))
    return (
        exchange.status == httpx2.codes.OK
        and as_it_is
        and headers.get(b"content-type", b"").startswith(EVENTS)
    )
