"""Encodes events as server-sent events: `id`, `event` and `data` each, pieces of one text merged."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from holdfast.core.events import Event, ReasoningDelta, TextDelta, ToolOutput
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
        if isinstance(event, TEXT_EVENTS):
            texts.append(event.text)
    settle()
    return kept


def _same_text(one: Event, other: Event) -> bool:
    return (
        type(one) is type(other)
        and isinstance(one, TEXT_EVENTS)
        and isinstance(other, TEXT_EVENTS)
        and (one.session_id, one.turn_id) == (other.session_id, other.turn_id)
        and getattr(one, "call_id", "") == getattr(other, "call_id", "")
    )
