"""`…/events`: a conversation's events, and the states of all conversations, as server-sent events.

A reader that reconnects sends the last number it has (`Last-Event-ID`, or `after`): it misses nothing and
gets nothing twice. Pieces of text that wait together are sent as one event, with the number of the last.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query

from holdfast.host import Numbered
from holdfast.web.contract import WebDep, WebParts
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import error_responses
from holdfast.web.sse import TEXT_EVENTS, encode_events
from holdfast.web.streams import EVENTS, StreamResponse

router = APIRouter(prefix="/api", tags=["events"])

MOST_KNOWN = 10_000
"""Of how many conversations of others a stream of changes knows that they are none of its reader's."""
RETRY_HINT = b"retry: 1000\n\n"
STREAM_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {"description": "the events", "content": {EVENTS: {"schema": {"type": "string"}}}}
}


@router.get(
    "/sessions/{session_id}/events",
    status_code=200,
    response_class=StreamResponse,
    responses={**error_responses(404, 422), **STREAM_RESPONSE},
)
async def read_events(
    web: WebDep,
    session_id: str,
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> StreamResponse:
    """The events after a number, then live; without one, a snapshot first."""
    place = after if last_event_id is None else _number(last_event_id)
    # An unknown session is refused before the stream begins.
    batches = await web.host.event_batches(session_id, after=place)
    web.streams.refuse_when_full()
    return stream_of(web, batches)


@router.get(
    "/events",
    status_code=200,
    response_class=StreamResponse,
    responses={**error_responses(), **STREAM_RESPONSE},
)
async def read_changes(web: WebDep, principal: PrincipalDep) -> StreamResponse:
    """The state of every conversation that is not idle, then of each one that changes."""
    web.streams.refuse_when_full()
    return StreamResponse(_changes(web, principal.sees), media_type=EVENTS)


def stream_of(
    web: WebParts, batches: AsyncGenerator[list[Numbered], None], first: bytes = b""
) -> StreamResponse:
    """A conversation's events as they come; `first` is sent before them."""
    return StreamResponse(_events(web, batches, first), media_type=EVENTS)


def _number(given: str) -> int | None:
    """The last number that a reader has; None for anything else, so a snapshot comes first."""
    most = 18
    return int(given) if given.isascii() and given.isdigit() and len(given) <= most else None


async def _events(
    web: WebParts, source: AsyncGenerator[list[Numbered], None], first: bytes
) -> AsyncGenerator[bytes, None]:
    yield RETRY_HINT + first
    async with aclosing(web.streams.read(source)) as batches:
        async for batch in batches:
            yield encode_events(batch)
            # Only pieces of text are collected: other events are sent at once.
            if isinstance(batch[-1].event, TEXT_EVENTS):
                await web.streams.pause()


async def _changes(web: WebParts, sees: str | None) -> AsyncGenerator[bytes, None]:
    yield RETRY_HINT
    own: set[str] = set()  # what was told is known: when it is deleted, the store can't say whose it was
    others: set[str] = set()
    async with aclosing(web.streams.read(web.host.overview.changes())) as changes:
        async for change in changes:
            if sees is not None and change.root_id not in own:
                if change.root_id not in others:
                    own |= await web.host.accounts.own(sees, [change.root_id])
                if change.root_id not in own:
                    if len(others) >= MOST_KNOWN:
                        others.clear()
                    others.add(change.root_id)
                    continue
            yield f"event: ConversationStatus\ndata: {json.dumps(asdict(change))}\n\n".encode()
