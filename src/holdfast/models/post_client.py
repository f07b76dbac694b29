"""`PostClient`: sends POST requests to one URL of a model's server, and streams the answers.

httpx sends the request, and follows redirects, keeps cookies and uses proxies. A stream of events is then
read directly from the `StreamTransport`, because the layers of httpx would cost several times as much for
each token. Read `stream_transport.py` first.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2

from holdfast.models.stream_transport import EXCHANGE, Exchange

NO_EVENTS = ("text/html", "application/json")


class NoEventStream(Exception):
    """The server's answer is not a stream of events. `response` holds it, and was read."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(f"HTTP {response.status_code} without a stream of events")
        self.response = response


class HttpxStream:
    """An answer that httpx must decode, or that came through a proxy."""

    def __init__(self, response: httpx2.Response) -> None:
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


class PostClient:
    """Sends requests to one URL."""

    def __init__(self, client: httpx2.AsyncClient, address: str) -> None:
        self._client = client
        self._address = address

    @asynccontextmanager
    async def post(self, content: bytes) -> AsyncGenerator[Exchange | HttpxStream, None]:
        """Send a request; the body of the `with` statement reads the events. Raises `NoEventStream`."""
        async with self._client.stream("POST", self._address, content=content) as response:
            kind = response.headers.get("content-type", "")
            if not response.is_success or kind.startswith(NO_EVENTS):
                await response.aread()
                raise NoEventStream(response)
            exchange: Exchange | None = response.extensions.get(EXCHANGE)
            encoded = "content-encoding" in response.headers
            yield HttpxStream(response) if exchange is None or encoded else exchange

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()
