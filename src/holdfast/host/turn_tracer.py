"""`TurnTracer`: the events of turns as OpenTelemetry spans, by the conventions for generative AI.

It only listens (`SessionHost.watch`), so a host without it pays nothing, and a turn never waits for it. A
turn is `invoke_agent`; inside it are `chat` for each answer of the model, `execute_tool` for each call, and
`recall`, `compaction` and `store`. What was said is in them only when that is asked for.
`wiring/telemetry.py` exports them.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core.contract import Clock
from holdfast.core.events import (
    CompactionFinished,
    CompactionStarted,
    Event,
    ModelRetrying,
    Recalled,
    StepFinished,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnEnd,
    TurnEvent,
    TurnFailed,
    TurnInterrupted,
    TurnResumed,
    TurnStarted,
)
from holdfast.models.contract import ModelTraits

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

NANOSECONDS = 1_000_000_000
MOST_OPEN_TURNS = 10_000
"""A turn that another process took over never ends here: the oldest are let go."""
CONTENT_CHARACTERS = 20_000
Attributes = dict[str, str | int | float | bool | list[str]]
UNKNOWN_PROVIDER = "_OTHER"
FINISH_REASONS = {"refused": "content_filter"}
"""Where the conventions have another word."""


@dataclass(slots=True)
class _OpenTurn:
    span: "Span"
    since: int
    """When the model was last given the word."""
    model: str
    provider: str
    calls: dict[str, "Span"] = field(default_factory=dict)


class TurnTracer:
    """Makes spans of events. `on_event` is called on the host's loop and must not wait."""

    def __init__(
        self, tracer: "Tracer", model: Callable[[], ModelTraits], clock: Clock, *, content: bool
    ) -> None:
        """`model` is the usual one, until an answer tells which was asked; `content`: keep what was said."""
        self._tracer = tracer
        self._model = model
        self._clock = clock
        self._content = content
        self._turns: dict[str, _OpenTurn] = {}

    def on_event(self, event: Event) -> None:
        """Take in what happens now."""
        if not isinstance(event, TurnEvent):
            return
        if isinstance(event, TurnStarted | TurnResumed):
            self._begin(event)
        elif (turn := self._turns.get(event.turn_id)) is not None:
            self._inside(event, turn)

    def _begin(self, event: TurnStarted | TurnResumed) -> None:
        while len(self._turns) >= MOST_OPEN_TURNS:
            self._turns.pop(next(iter(self._turns))).span.end()
        usual = self._model()
        attributes: Attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": usual.provider or UNKNOWN_PROVIDER,
            "gen_ai.agent.name": "holdfast",
            "gen_ai.conversation.id": event.session_id,
            "gen_ai.request.model": usual.name,
            "holdfast.turn.id": event.turn_id,
            **self._said("gen_ai.input.messages", event.text, "user"),
        }
        now = self._now()
        span = self._tracer.start_span("invoke_agent holdfast", start_time=now, attributes=attributes)
        self._turns[event.turn_id] = _OpenTurn(span, now, usual.name, usual.provider)

    def _inside(self, event: TurnEvent, turn: _OpenTurn) -> None:
        now = self._now()
        match event:
            case ToolStarted():
                turn.calls[event.call_id] = self._open_call(event, turn, now)
                return
            case ToolFinished():
                self._end_call(event, turn, now)
            case StepFinished():
                self._answer(event, turn, now)
            case ModelRetrying():
                failed: Attributes = {**_chat(turn, event), "error.type": "retried"}
                self._add(turn, f"chat {turn.model}", turn.since, now, failed)
            case Recalled():
                start = now - int(event.seconds * NANOSECONDS)
                asked = ", ".join(each.provider for each in event.providers)
                self._add(turn, "recall", start, now, {"holdfast.memory.providers": asked})
            case CompactionFinished():
                self._add(turn, "compaction", turn.since, now, {"holdfast.outcome": event.outcome})
            case CompactionStarted():
                pass
            case TurnCompleted() | TurnInterrupted() | TurnFailed():
                self._end(event, turn, now)
                return
            case _:
                return
        turn.since = now

    def _open_call(self, event: ToolStarted, turn: _OpenTurn, now: int) -> "Span":
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.call.id": event.call_id,
            **self._given("gen_ai.tool.call.arguments", event.arguments),
        }
        return self._start(turn, f"execute_tool {event.name}", now, attributes)

    def _end_call(self, event: ToolFinished, turn: _OpenTurn, now: int) -> None:
        span = turn.calls.pop(event.call_id, None)
        if span is None:
            return
        span.set_attributes(self._given("gen_ai.tool.call.result", event.output))
        if not event.ok:
            span.set_attribute("error.type", "tool_failed")
        span.end(now)

    def _answer(self, event: StepFinished, turn: _OpenTurn, now: int) -> None:
        if event.model:
            turn.model, turn.provider = event.model, event.provider
            turn.span.set_attribute("gen_ai.request.model", turn.model)
            turn.span.set_attribute("gen_ai.provider.name", turn.provider or UNKNOWN_PROVIDER)
        attributes: Attributes = {
            **_chat(turn, event),
            "gen_ai.response.finish_reasons": [FINISH_REASONS.get(event.stop_reason, event.stop_reason)],
            "gen_ai.usage.input_tokens": event.input_tokens,
            "gen_ai.usage.output_tokens": event.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
        }
        if event.response_model:
            attributes["gen_ai.response.model"] = event.response_model
        if event.cost:
            attributes["holdfast.cost_dollars"] = event.cost
        self._add(turn, f"chat {turn.model}", turn.since, now, attributes)

    def _end(self, event: TurnEnd, turn: _OpenTurn, now: int) -> None:
        from opentelemetry.trace import Status, StatusCode

        del self._turns[event.turn_id]
        for span in turn.calls.values():
            span.end(now)
        if isinstance(event, TurnCompleted):
            self._add(turn, "store", turn.since, now, {"db.operation.name": "complete_turn"})
            turn.span.set_attributes(self._said("gen_ai.output.messages", event.final_response, "assistant"))
        elif isinstance(event, TurnFailed):
            turn.span.set_attribute("error.type", event.failure or "failed")
            turn.span.set_status(Status(StatusCode.ERROR))
        turn.span.set_attribute("holdfast.turn.state", type(event).__name__.removeprefix("Turn").lower())
        turn.span.end(now)

    def _add(self, turn: _OpenTurn, name: str, start: int, end: int, attributes: Attributes) -> None:
        self._start(turn, name, min(start, end), attributes).end(end)

    def _start(self, turn: _OpenTurn, name: str, start: int, attributes: Attributes) -> "Span":
        from opentelemetry.trace import SpanKind, set_span_in_context

        kind = SpanKind.CLIENT if name.startswith("chat ") else SpanKind.INTERNAL
        parent = set_span_in_context(turn.span)
        return self._tracer.start_span(name, parent, kind, start_time=start, attributes=attributes)

    def _said(self, name: str, text: str, role: str) -> Attributes:
        parts = [{"type": "text", "content": text[:CONTENT_CHARACTERS]}]
        return self._given(name, json.dumps([{"role": role, "parts": parts}]))

    def _given(self, name: str, text: str) -> Attributes:
        return {name: text[: 2 * CONTENT_CHARACTERS]} if self._content else {}

    def _now(self) -> int:
        return int(self._clock.now() * NANOSECONDS)


def _chat(turn: _OpenTurn, event: TurnEvent) -> Attributes:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": turn.provider or UNKNOWN_PROVIDER,
        "gen_ai.request.model": turn.model,
        "gen_ai.conversation.id": event.session_id,
    }
