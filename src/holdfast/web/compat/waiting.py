"""Waits for a whole answer, for as long as the client does."""

import asyncio
from contextlib import aclosing

from starlette.requests import Request

from holdfast.web.compat.turns import AnsweredTurn, TurnBroken
from holdfast.web.problems import ProblemRaised

AWAY = 499
"""What a log calls the status of a client that did not wait."""


async def answered(request: Request, turn: AnsweredTurn) -> None:
    """Run the turn to its end; a client that goes away stops it."""
    work = asyncio.create_task(_run(turn))
    leaving = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise ProblemRaised(AWAY, "client_gone", "the client did not wait for its answer.", "")
        work.result()
    except TurnBroken as broken:
        raise ProblemRaised(broken.status, broken.reason, str(broken), "") from broken
    finally:
        leaving.cancel()
        work.cancel()
        await asyncio.wait([work, leaving])


async def _run(turn: AnsweredTurn) -> None:
    async with aclosing(turn.run(turn.web.streams)) as pieces:
        async for _ in pieces:
            pass


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
