"""`…/events`: a conversation's events, and how all conversations stand, as server-sent events.

A reader that comes back names the last number it has (`Last-Event-ID`, or `after`): it misses nothing and
gets nothing twice. Pieces of text that wait together go out as one event, with the number of the last.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query

from holdfast.host import Numbered
from holdfast.web.contract import TheWeb, Web
from holdfast.web.problems import said_of
from holdfast.web.streaming import EVENTS, Stream
from holdfast.web.written import PIECES, written

router = APIRouter(prefix="/api", tags=["events"])

HELLO = b"retry: 1000\n\n"
SAID: dict[int | str, dict[str, Any]] = {
    200: {"description": "the events", "content": {EVENTS: {"schema": {"type": "string"}}}}
}


@router.get(
    "/sessions/{session_id}/events",
    status_code=200,
    response_class=Stream,
    responses={**said_of(404, 422), **SAID},
)
async def read_events(
    web: TheWeb,
    session_id: str,
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> Stream:
    """The events after a number, then live; without one, a snapshot first."""
    place = after if last_event_id is None else _number(last_event_id)
    # A session that is not there is said before the stream begins.
    batches = await web.host.event_batches(session_id, after=place)
    web.streams.refuse_when_full()
    return stream_of(web, batches)


@router.get("/events", status_code=200, response_class=Stream, responses={**said_of(), **SAID})
async def read_changes(web: TheWeb) -> Stream:
    """How every conversation stands that is not idle, then each one whenever it changes."""
    web.streams.refuse_when_full()
    return Stream(_changes(web), media_type=EVENTS)


def stream_of(web: Web, batches: AsyncGenerator[list[Numbered], None], first: bytes = b"") -> Stream:
    """A conversation's events as they come; what is said `first` goes out with those there are by now."""
    return Stream(_events(web, batches, first), media_type=EVENTS)


def _number(given: str) -> int | None:
    """The last number a reader has; what can't be one is taken for none, and a snapshot comes first."""
    most = 18
    return int(given) if given.isascii() and given.isdigit() and len(given) <= most else None


async def _events(
    web: Web, source: AsyncGenerator[list[Numbered], None], first: bytes
) -> AsyncGenerator[bytes, None]:
    before = HELLO + first
    if not first:
        yield before
        before = b""
    async with aclosing(web.streams.read(source)) as batches:
        async for batch in batches:
            yield before + written(batch)
            before = b""
            # Only text is worth gathering: what begins or ends something is not kept waiting behind it.
            if isinstance(batch[-1].event, PIECES):
                await web.streams.pause()
    if before:
        yield before  # the server ends: what was to be said first is said


async def _changes(web: Web) -> AsyncGenerator[bytes, None]:
    yield HELLO
    async with aclosing(web.streams.read(web.host.changes())) as changes:
        async for change in changes:
            yield f"event: SessionChange\ndata: {json.dumps(asdict(change))}\n\n".encode()
