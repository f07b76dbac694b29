"""Streamed responses: one chunk after another until the source, the reader or the server ends.

A slow reader never slows a turn. `OpenStreams` knows every stream, so the server ends them at once when it
stops.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.web.problems import ProblemRaised

T = TypeVar("T")

EVENTS = "text/event-stream"
PING = b": ping\n\n"
PING_SECONDS = 15.0
"""How often a quiet stream sends a comment."""
SHORTEST_PAUSE, PAUSE_FOR_EACH, LONGEST_PAUSE = 0.02, 0.0001, 0.2
"""The pause between two chunks of text, in seconds: short enough to look like typing."""


class OpenStreams:
    """The streams that are open now, with a limit."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.closing = False
        self._waiting: set[asyncio.Task[Any]] = set()
        self.open = 0
        self._pausing = 0

    @property
    def full(self) -> bool:
        return self.open >= self.most

    def refuse_when_full(self) -> None:
        """Raise when no stream is free. The caller must begin its stream without an `await` in between."""
        if self.full:
            raise ProblemRaised(
                503,
                "TooManyStreams",
                f"{self.most} event streams are open already.",
                "Close some of them. The setting web.streams is the limit, and the number of open files.",
                {"Retry-After": "5"},
            )

    async def pause(self) -> None:
        """Wait between two chunks, so that pieces are sent together; longer when many streams are busy."""
        self._pausing += 1
        try:
            await asyncio.sleep(min(LONGEST_PAUSE, max(SHORTEST_PAUSE, self._pausing * PAUSE_FOR_EACH)))
        finally:
            self._pausing -= 1

    def _is_closed_by_server(self, task: "asyncio.Task[Any]") -> bool:
        """Whether only `close` cancelled the task."""
        return self.closing and not task.uncancel()

    def close(self) -> None:
        """End every stream now. May be called again: a second cancellation would break a stream off."""
        if self.closing:
            return
        self.closing = True
        for each in self._waiting:
            each.cancel()

    async def read(self, source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """The items of the source, until it or the server ends."""
        self.open += 1
        try:
            while not self.closing:
                # Looked up each time: another task may wait for the first item than for the rest.
                task = asyncio.current_task()
                assert task is not None  # noqa: S101 - this is a coroutine
                self._waiting.add(task)
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    if self._is_closed_by_server(task):
                        return
                    raise
                finally:
                    self._waiting.discard(task)
                yield item
        finally:
            self.open -= 1
            await source.aclose()


class StreamResponse(StreamingResponse):
    """A response in chunks that ends when its client leaves, with comments while it is quiet."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        headers: dict[str, str] | None = None,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`then` is called when the response is over, even when no chunk was read."""
        always = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(chunks, media_type=media_type, headers={**always, **(headers or {})})
        self._chunks = chunks
        self._then = then

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        streaming = asyncio.current_task()
        assert streaming is not None  # noqa: S101 - this is a coroutine
        gone = False

        async def watch() -> None:
            nonlocal gone
            with suppress(HTTPException):  # the client sent a body that was refused
                while (await receive())["type"] != "http.disconnect":
                    pass
            gone = True
            streaming.cancel()

        watching = asyncio.create_task(watch())
        heartbeat = _Heartbeat(send)
        try:
            await self._stream(heartbeat)
        except asyncio.CancelledError:
            if not gone or streaming.uncancel():
                raise
        finally:
            heartbeat.stop()
            watching.cancel()
            if self._then is not None:
                await self._then()

    async def _stream(self, heartbeat: "_Heartbeat") -> None:
        async with aclosing(self._chunks) as chunks:
            await heartbeat.send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            async for chunk in chunks:
                await heartbeat.send({"type": "http.response.body", "body": chunk, "more_body": True})
            await heartbeat.send({"type": "http.response.body", "body": b"", "more_body": False})


class _Heartbeat:
    """Sends the messages of a stream, and a comment when nothing was sent for a while."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._sending = True
        self._ping: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(PING_SECONDS, self._look)

    async def send(self, message: Message) -> None:
        self._sending = True
        await self._send(message)
        self._sending = False
        self._last = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()
        if self._ping is not None:
            self._ping.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if not self._sending and now - self._last >= PING_SECONDS:
            self._ping = self._loop.create_task(self._say())
            self._last = now
        left = max(0.0, self._last + PING_SECONDS - now) or PING_SECONDS
        self._timer = self._loop.call_later(left, self._look)

    async def _say(self) -> None:
        await self._send({"type": "http.response.body", "body": PING, "more_body": True})
