"""`/api/sessions/{id}/events`: a conversation's events as server-sent events, each with its number.

A reader that comes back names the last number it has (`Last-Event-ID`, or `after`): it misses nothing and
gets nothing twice. Pieces of text that wait together go out as one event, with the number of the last.
"""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query

from holdfast.core.events import Event, ReasoningDelta, TextDelta, ToolOutput
from holdfast.host import Numbered
from holdfast.web.contract import TheWeb, Web
from holdfast.web.problems import ProblemRaised, said_of
from holdfast.web.streaming import Stream

router = APIRouter(prefix="/api/sessions/{session_id}", tags=["talking"])

PIECES = (TextDelta, ReasoningDelta, ToolOutput)
HELLO = b"retry: 1000\n\n"
BEAT = b": ping\n\n"
EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}


@router.get(
    "/events",
    response_class=Stream,
    responses={**said_of(404, 422), 200: {"description": "the events", "content": EVENTS}},
)
async def read_events(
    web: TheWeb,
    session_id: str,
    after: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Stream:
    """The events after a number, then live; without one, a snapshot first."""
    place = after if last_event_id is None else _number(last_event_id)
    await web.host.waiting(session_id)  # there is no such session: said before the stream begins
    if web.streams.full:
        raise ProblemRaised(
            503,
            "TooManyStreams",
            f"{web.streams.most} event streams are open already.",
            "Close some of them; the setting web.streams is the limit.",
            {"Retry-After": "5"},
        )
    return Stream(
        _chunks(web, session_id, place), media_type="text/event-stream", patience=web.settings.patience_s
    )


def _number(given: str) -> int | None:
    """The last number a reader has; one that can't be is taken for none, and a snapshot comes first."""
    most = 19
    return int(given) if given.isascii() and given.isdigit() and len(given) <= most else None


async def _chunks(web: Web, session_id: str, after: int | None) -> AsyncGenerator[bytes, None]:
    yield HELLO
    async with aclosing(web.streams.read(web.host.events(session_id, after=after))) as events:
        async for numbered in events:
            yield BEAT if numbered is None else written([numbered])


def written(events: Sequence[Numbered]) -> bytes:
    """Events on the wire, pieces of one text joined."""
    lines: list[str] = []
    for numbered in joined(events):
        event = numbered.event
        data = json.dumps({**event.to_json(), "number": numbered.number}, ensure_ascii=False)
        lines.append(f"id: {numbered.number}\nevent: {type(event).__name__}\ndata: {data}\n\n")
    return "".join(lines).encode("utf-8", "replace")


def joined(events: Sequence[Numbered]) -> list[Numbered]:
    """The same events, with neighbours that are pieces of one text as one; it has the last one's number."""
    kept: list[Numbered] = []
    texts: list[str] = []

    def settle() -> None:
        if len(texts) > 1:
            last: Any = kept[-1].event
            kept[-1] = replace(kept[-1], event=replace(last, text="".join(texts)))
        texts.clear()

    for numbered in events:
        event = numbered.event
        if texts and _same_text(kept[-1].event, event):
            kept[-1] = numbered
        else:
            settle()
            kept.append(numbered)
        if isinstance(event, PIECES):
            texts.append(event.text)
    settle()
    return kept


def _same_text(one: Event, other: Event) -> bool:
    return (
        type(one) is type(other)
        and isinstance(one, PIECES)
        and isinstance(other, PIECES)
        and (one.session_id, one.turn_id) == (other.session_id, other.turn_id)
        and getattr(one, "call_id", "") == getattr(other, "call_id", "")
    )
