"""A turn as a timeline: what is on record of it, told in stretches of time. Read `TurnTimeline` in the agent.

A turn that ended says itself how its time went. Where it can't (a crash cut it off, it ran in an earlier
life), its messages and their times do.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.agent.transcript import superseded
from holdfast.core.events import RecalledFrom
from holdfast.core.messages import HOLDFAST_KEY
from holdfast.host.contract import SpanView, TurnDetails
from holdfast.sessions import Delivery, StoredMessage, TurnHistory, TurnRecord

MS = 1000


def turn_details(record: TurnHistory, so_far: dict[str, Any] | None = None) -> TurnDetails:
    """The turn as people look at it; `so_far` is the timeline of one that runs in this process."""
    timeline: dict[str, Any] = record.timeline or so_far or {}
    turn = record.turn
    told = [_told(turn, each) for each in timeline.get("spans", ())]
    # What an earlier life did before the turn was resumed is only in the messages.
    begun = turn.started + int(timeline.get("from", 0)) if timeline else None
    spans = [*_read_off(record, until=begun), *told]
    if turn.ended is not None and timeline:
        last = max((each.ended_ms or 0 for each in spans), default=turn.started // MS)
        spans.append(SpanView("storing", "", min(last, turn.ended // MS), turn.ended // MS, ok=True))
    spans += [_delivery(each) for each in record.deliveries]
    tokens = timeline.get("tokens") or (0, 0, 0)
    return TurnDetails(
        turn_id=turn.id,
        session_id=turn.session_id,
        root_id=record.root_id,
        state=turn.state,
        reason=turn.reason or "",
        started_ms=turn.started // MS,
        ended_ms=None if turn.ended is None else turn.ended // MS,
        model=str(timeline.get("model", "")),
        spans=tuple(spans),
        recalled=tuple(RecalledFrom(**each) for each in timeline.get("recalled", ())),
        input_tokens=tokens[0],
        output_tokens=tokens[1],
        cached_tokens=tokens[2],
    )


def _told(turn: TurnRecord, span: list[Any]) -> SpanView:
    kind, name, start, end, ok = span
    return SpanView(kind, name, (turn.started + start) // MS, (turn.started + end) // MS, ok=ok)


def _read_off(record: TurnHistory, until: int | None) -> list[SpanView]:
    if until is not None and until <= record.turn.started:
        return []
    messages = [each for each in record.messages if until is None or each.created <= until]
    return list(_spans(record.turn, messages, open_ended=until is None))


def _spans(turn: TurnRecord, messages: list[StoredMessage], *, open_ended: bool) -> Iterator[SpanView]:
    since = turn.started
    calls: dict[str, tuple[str, int]] = {}
    for stored in messages[1:]:
        message, at = stored.message, stored.created
        if message["role"] == "assistant":
            yield SpanView("model", "", since // MS, at // MS, ok=not superseded(message))
            for call in message.get("tool_calls") or ():
                calls[call["id"]] = (call["function"]["name"], at)
        elif message["role"] == "tool":
            name, start = calls.pop(message.get("tool_call_id", ""), ("", since))
            yield SpanView("tool", name, start // MS, at // MS, ok=HOLDFAST_KEY not in message)
        since = at
    if open_ended and turn.ended is None:
        for name, start in calls.values():
            yield SpanView("tool", name, start // MS, None, ok=None)


def _delivery(each: Delivery) -> SpanView:
    outcomes = {"delivered": True, "set_aside": False, "dropped": False}
    return SpanView(
        "delivery",
        each.provider,
        each.created // MS,
        None if each.settled is None else each.settled // MS,
        ok=outcomes.get(each.state),
        state=each.state,
        attempts=each.attempts,
        error=each.last_error or "",
    )
