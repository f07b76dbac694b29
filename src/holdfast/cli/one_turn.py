"""One message and its turn, for surfaces without a prompt: `ask`, and lines from standard input."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from holdfast.core import errors
from holdfast.core.errors import HoldfastError
from holdfast.core.events import (
    ApprovalAsked,
    Event,
    QuestionAsked,
    SessionMoved,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.host import Host, Numbered
from holdfast.wiring.leaving import Leaving

NOBODY = "Nobody is there to answer."


class TurnUnsuccessful(HoldfastError):
    """A turn failed; `kind` is the class of its error, for the exit code."""

    def __init__(self, event: TurnFailed) -> None:
        super().__init__(f"{event.error} The message is kept.")
        found = getattr(errors, event.failure, None)
        self.kind = found if isinstance(found, type) and issubclass(found, HoldfastError) else HoldfastError


async def turn_of(host: Host, session_id: str, text: str, leaving: Leaving) -> AsyncGenerator[Event, None]:
    """Send a message and give the events of its turn. What needs a person's word is refused: none is there.

    A stop that is asked for interrupts the turn; when it runs elsewhere, the events end.
    """
    async with aclosing(host.events(session_id)) as events:
        await anext(events)
        inbox_id = (await host.send(session_id, text)).inbox_id
        turn_id, elsewhere = "", False
        async with aclosing(_until_stopped(host, session_id, events, leaving)) as heard:
            async for event in heard:
                # A turn that another process runs is known by its words alone.
                if isinstance(event, TurnStarted) and event.inbox_id in (inbox_id, 0) and event.text == text:
                    turn_id = event.turn_id
                if getattr(event, "turn_id", turn_id) != turn_id:
                    continue  # of another message that came first
                yield event
                if isinstance(event, SessionMoved):
                    elsewhere = event.elsewhere
                if not elsewhere:  # who runs the turn may have a person to ask
                    await _refuse(host, session_id, event)
                if isinstance(event, (TurnCompleted, TurnFailed, TurnInterrupted)):
                    return


async def _refuse(host: Host, session_id: str, event: Event) -> None:
    if isinstance(event, ApprovalAsked):
        await host.approve(session_id, event.ask_id, "no")
    elif isinstance(event, QuestionAsked):
        await host.answer(session_id, event.ask_id, NOBODY)


async def _until_stopped(
    host: Host, session_id: str, events: AsyncGenerator[Numbered, None], leaving: Leaving
) -> AsyncGenerator[Event, None]:
    stop = asyncio.ensure_future(leaving.asked.wait())
    coming = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            await asyncio.wait([coming, stop], return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                if not await host.interrupt(session_id):
                    return
                await asyncio.wait([coming])
            numbered = coming.result()
            if numbered is None:
                return
            yield numbered.event
            coming = asyncio.ensure_future(anext(events, None))
    finally:
        stop.cancel()
        coming.cancel()
        await asyncio.wait([coming])
