"""Responses that go on: one chunk after another until the source, the reader or the server ends.

A reader that is gone or slow never slows a turn: it only stops reading here. `OpenStreams` knows them all,
so that the end of the program ends them at once.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from holdfast.web.problems import ProblemRaised

T = TypeVar("T")

EVENTS = "text/event-stream"
BEAT = b": ping\n\n"
FIRST_BEAT_SECONDS, BEAT_SECONDS = 1.0, 15.0
"""How often a quiet stream says that it is there; soon at first, for its head goes out with that."""
SHORTEST_PAUSE, PAUSE_FOR_EACH, LONGEST_PAUSE = 0.02, 0.0001, 0.2
"""Between two chunks of a stream, in seconds: quick enough to look like typing."""


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
        """To be called right before a stream begins: nothing may come between."""
        if self.full:
            raise ProblemRaised(
                503,
                "TooManyStreams",
                f"{self.most} event streams are open already.",
                "Close some of them; the setting web.streams is the limit.",
                {"Retry-After": "5"},
            )

    async def pause(self) -> None:
        """Let pieces gather between two chunks: the more streams are busy, the longer."""
        self._pausing += 1
        try:
            await asyncio.sleep(min(LONGEST_PAUSE, max(SHORTEST_PAUSE, self._pausing * PAUSE_FOR_EACH)))
        finally:
            self._pausing -= 1

    def _is_told_to_end(self, task: "asyncio.Task[Any]") -> bool:
        """Whether it was cancelled by the server's end, and by nobody else."""
        return self.closing and not task.uncancel()

    def close(self) -> None:
        """End every stream now."""
        self.closing = True
        for each in self._waiting:
            each.cancel()

    async def read(self, source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        """What comes from the source, until it or the server ends."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine
        self.open += 1
        try:
            while not self.closing:
                self._waiting.add(task)
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
                except asyncio.CancelledError:
                    if self._is_told_to_end(task):
                        return
                    raise
                finally:
                    self._waiting.discard(task)
                yield item
        finally:
            self.open -= 1
            await source.aclose()


class Last(bytes):
    """A chunk that knows that none comes after it: the answer's end goes out with it."""


class Stream(StreamingResponse):
    """A response made of chunks, for as long as its client is there; a quiet one says that it is, too."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        media_type: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        always = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(chunks, media_type=media_type, headers={**always, **(headers or {})})
        self._chunks = chunks

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        streaming = asyncio.current_task()
        assert streaming is not None  # noqa: S101 - this is a coroutine
        gone = False

        async def watch() -> None:
            nonlocal gone
            with suppress(HTTPException):  # it sends a body nobody asked for, and that one is refused
                while (await receive())["type"] != "http.disconnect":
                    pass
            gone = True
            streaming.cancel()

        watching = asyncio.create_task(watch())
        beating = _Beating(send)
        try:
            await self._stream(beating)
        except asyncio.CancelledError:
            if not gone or streaming.uncancel():
                raise
        finally:
            beating.stop()
            watching.cancel()

    async def _stream(self, beating: "_Beating") -> None:
        async with aclosing(self._chunks) as chunks:
            await beating.send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            more = True
            async for chunk in chunks:
                more = not isinstance(chunk, Last)
                await beating.send({"type": "http.response.body", "body": chunk, "more_body": more})
            if more:
                await beating.send({"type": "http.response.body", "body": b"", "more_body": False})


class _Beating:
    """Sends for a stream, and a beat whenever nothing was sent for a while."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._sending = True
        self._beat: asyncio.Task[None] | None = None
        self._silent = True
        self._timer = self._loop.call_later(FIRST_BEAT_SECONDS, self._look)

    async def send(self, message: Message) -> None:
        self._sending = True
        await self._send(message)
        self._sending = False
        self._silent = self._silent and message["type"] == "http.response.start"
        self._last = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()
        if self._beat is not None:
            self._beat.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if not self._sending and (self._silent or now - self._last >= BEAT_SECONDS):
            self._beat = self._loop.create_task(self._say())
            self._last, self._silent = now, False
        left = max(0.0, self._last + BEAT_SECONDS - now) or BEAT_SECONDS
        self._timer = self._loop.call_later(FIRST_BEAT_SECONDS if self._silent else left, self._look)

    async def _say(self) -> None:
        await self._send({"type": "http.response.body", "body": BEAT, "more_body": True})
