"""Encodes events as server-sent events: `id`, `event` and `data` each, pieces of one text merged."""

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from holdfast.core.events import ReasoningDelta, TextDelta, ToolOutput
from holdfast.host import Numbered

TEXT_EVENTS = (TextDelta, ReasoningDelta, ToolOutput)


def encode_events(events: Sequence[Numbered]) -> bytes:
    """The bytes of these events, pieces of one text merged."""
    lines: list[str] = []
    for numbered in merge_text(events):
        event = numbered.event
        data = json.dumps({**event.to_json(), "number": numbered.number, "at": numbered.at})
        lines.append(f"id: {numbered.number}\nevent: {type(event).__name__}\ndata: {data}\n\n")
    return "".join(lines).encode()


def merge_text(events: Sequence[Numbered]) -> list[Numbered]:
    """The same events with adjacent pieces of one text merged, under the number of the last piece."""
    return [_merged(list(pieces)) for _, pieces in groupby(events, key=_text_of)]


def _merged(pieces: Sequence[Numbered]) -> Numbered:
    last = pieces[-1]
    if len(pieces) == 1:
        return last
    event: Any = last.event
    text = "".join(getattr(each.event, "text", "") for each in pieces)
    return replace(last, event=replace(event, text=text))


def _text_of(numbered: Numbered) -> tuple[object, ...]:
    """Which text an event is a piece of; any other event stands for itself."""
    event = numbered.event
    if not isinstance(event, TEXT_EVENTS):
        return (id(numbered),)
    return type(event), event.session_id, event.turn_id, getattr(event, "call_id", "")
