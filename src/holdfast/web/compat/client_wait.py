"""Waits for an answer or for its first part, as long as the client stays connected."""

import asyncio
from contextlib import aclosing
from typing import Any

from starlette.requests import Request

from holdfast.web.compat.api_turn import AnswerDelta, ApiTurn
from holdfast.web.problems import ProblemRaised

AWAY = 499
"""The status in the log for a client that left early."""
HEAD_SECONDS = 15.0
"""How long a stream waits for its first part before it sends headers, so an early error has its status."""


async def wait_for_answer(request: Request, turn: ApiTurn) -> None:
    """Run the turn to its end; it is stopped when the client leaves."""
    work = asyncio.create_task(_run(turn))
    try:
        await _wait_for(work, request)
    finally:
        work.cancel()
        await asyncio.wait([work])


class DeltaStream:
    """The parts of a streamed answer."""

    def __init__(self, turn: ApiTurn) -> None:
        self._source = turn.run(turn.web.streams)
        self._first = asyncio.ensure_future(anext(self._source, None))
        self._started = False

    async def start(self, request: Request) -> None:
        """Wait for the first part, up to `HEAD_SECONDS`; raises the error of a turn that failed before it."""
        try:
            await _wait_for(self._first, request, HEAD_SECONDS)
        except BaseException:
            await self.aclose()
            raise

    def __aiter__(self) -> "DeltaStream":
        return self

    async def __anext__(self) -> AnswerDelta:
        if self._started:
            return await anext(self._source)
        self._started = True
        first = await self._first
        if first is None:
            raise StopAsyncIteration
        return first

    async def aclose(self) -> None:
        """Stop reading. Idempotent."""
        self._first.cancel()
        await asyncio.wait([self._first])
        await self._source.aclose()


async def _run(turn: ApiTurn) -> None:
    async with aclosing(turn.run(turn.web.streams)) as pieces:
        async for _ in pieces:
            pass


async def _wait_for(work: "asyncio.Future[Any]", request: Request, seconds: float | None = None) -> None:
    """Wait, so long at most; raises the error of the work, or that the client left before its end."""
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([work, leaving], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        elif leaving.done():
            raise ProblemRaised(AWAY, "client_gone", "the client did not wait for its answer.", "")
    finally:
        leaving.cancel()
        await asyncio.wait([leaving])


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
