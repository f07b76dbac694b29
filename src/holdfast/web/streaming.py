"""Responses that go on: one chunk after another until the source, the reader or the server ends.

A reader that is gone or slow never slows a turn: it only stops reading here. `OpenStreams` knows them all,
so that the end of the program ends them at once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.responses import StreamingResponse
from starlette.types import Send

T = TypeVar("T")

EVENTS = "text/event-stream"
BEAT = b": ping\n\n"
BEAT_SECONDS = 15.0
"""How often a quiet stream says that it is there."""
SHORTEST_PAUSE, PAUSE_FOR_EACH, LONGEST_PAUSE = 0.02, 0.0005, 0.2
"""Between two chunks of a stream, in seconds: quick enough to look like typing."""


class OpenStreams:
    """The streams that are open now, with a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closing = False
        self._waiting: set[asyncio.Future[Any]] = set()
        self.open = 0
        self._pausing = 0

    @property
    def full(self) -> bool:
        return self.open >= self.most

    async def pause(self) -> None:
        """Let pieces gather between two chunks: the more streams are busy, the longer."""
        self._pausing += 1
        try:
            await asyncio.sleep(min(LONGEST_PAUSE, max(SHORTEST_PAUSE, self._pausing * PAUSE_FOR_EACH)))
        finally:
            self._pausing -= 1

    def close(self) -> None:
        """End every stream now."""
        self.closing = True
        for each in list(self._waiting):
            each.cancel()

    async def read(
        self, source: AsyncGenerator[T, None], beat: float = BEAT_SECONDS
    ) -> AsyncGenerator[T | None, None]:
        """What comes from the source, and None whenever nothing came for a while."""
        self.open += 1
        coming: asyncio.Future[T] | None = None
        try:
            while not self.closing:
                if coming is None:
                    coming = asyncio.ensure_future(anext(source))
                self._waiting.add(coming)
                try:
                    await asyncio.wait([coming], timeout=beat)
                finally:
                    self._waiting.discard(coming)
                if not coming.done():
                    yield None
                elif coming.cancelled():
                    return
                else:
                    try:
                        item = coming.result()
                    except StopAsyncIteration:
                        return
                    coming = None
                    yield item
        finally:
            self.open -= 1
            if coming is not None:
                coming.cancel()
                with suppress(asyncio.CancelledError, StopAsyncIteration):
                    await coming
            await source.aclose()


class Stream(StreamingResponse):
    """A response made of chunks. A client that takes none of it for `patience` seconds is left."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        patience: float,
        headers: dict[str, str] | None = None,
    ) -> None:
        always = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(chunks, media_type=media_type, headers={**always, **(headers or {})})
        self._chunks = chunks
        self._patience = patience

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self._chunks) as chunks:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async for chunk in chunks:
                async with asyncio.timeout(self._patience):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
