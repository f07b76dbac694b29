"""Turns become OpenTelemetry spans, with nothing that was said unless that is asked for."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import TurnError
from holdfast.core.events import (
    CompactionFinished,
    CompactionStarted,
    ModelRetrying,
    Recalled,
    RecalledFrom,
    StepFinished,
    TurnCompleted,
    TurnStarted,
)
from holdfast.host import SessionHost
from holdfast.host.turn_tracer import TurnTracer
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.scripted_model import Call, Tokens
from tests.agent.agent_fixtures import echo
from tests.host.host_fixtures import host_parts

Wait = Callable[[Awaitable[Any]], Any]
USUAL = ModelTraits("m", 100_000, provider="maker")
TURN: Any = {"session_id": "s", "turn_id": "t"}
pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")


@pytest.mark.parametrize("content", [False, True])
def test_a_turn_is_a_trace_of_its_answers_and_calls(wait: Wait, content: bool) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = TurnTracer(provider.get_tracer("t"), lambda: USUAL, SystemClock(), content=content)
    script: list[Any] = [
        [Call("echo", {"text": "secret"}), Tokens(100, 7)],
        "the secret answer",
        ValueError("broken"),
    ]
    model = ScriptedModel(script, traits=USUAL)

    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            parts = host_parts(db, lambda _: model, tools=[echo()])
            async with SessionHost(replace(parts, observer=tracer.on_event)) as host:
                await host.ask("s", "a secret question")
                with pytest.raises(TurnError):
                    await host.ask("s", "again")

    wait(scenario())
    spans = kept.get_finished_spans()
    names = [each.name for each in spans]
    assert names[:5] == ["chat m", "execute_tool echo", "chat m", "store", "invoke_agent holdfast"]
    turn = spans[4]
    assert turn.attributes is not None
    assert turn.attributes["gen_ai.conversation.id"] == "s"
    assert turn.attributes["holdfast.turn.state"] == "completed"
    assert all(each.parent is not None and each.parent.span_id == turn.context.span_id for each in spans[:4])
    assert all((each.start_time or 0) <= (each.end_time or 0) for each in spans)
    assert (spans[0].attributes or {})["gen_ai.usage.input_tokens"] == 100
    answers = [each.attributes or {} for each in (spans[0], spans[2])]
    assert [each["gen_ai.response.finish_reasons"] for each in answers] == [("tool_calls",), ("stop",)]
    assert all(each["gen_ai.provider.name"] == "maker" for each in (*answers, turn.attributes))
    failed = spans[-1]
    assert (failed.name, failed.status.is_ok) == ("invoke_agent holdfast", False)
    said = json.dumps([dict(each.attributes or {}) for each in spans])
    assert ("secret" in said) is content


def test_recall_compaction_and_the_model_that_was_asked_are_told_with_their_times() -> None:
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    clock = FakeClock()
    tracer = TurnTracer(provider.get_tracer("t"), lambda: ModelTraits("usual", 1), clock, content=False)

    def seconds(span: ReadableSpan) -> float:
        return ((span.end_time or 0) - (span.start_time or 0)) / 1e9

    tracer.on_event(TurnStarted(**TURN, inbox_id=0, text="hello"))
    clock.advance(2)
    asked = (RecalledFrom("local", "answered", "x"), RecalledFrom("other", "late", ""))
    tracer.on_event(Recalled(**TURN, seconds=1.5, providers=asked))
    tracer.on_event(ModelRetrying(**TURN, attempt=1, delay=0, problem="busy", partial=False))
    tracer.on_event(CompactionStarted(**TURN, tokens=90_000))
    clock.advance(4)
    tracer.on_event(CompactionFinished(**TURN, outcome="shorter", tokens_before=90_000, tokens_after=9_000))
    clock.advance(8)
    counts: Any = {"input_tokens": 10, "output_tokens": 1, "cached_tokens": 0, "context": 11, "window": 1000}
    tracer.on_event(
        StepFinished(
            **TURN,
            **counts,
            step=1,
            stop_reason="refused",
            model="chosen",
            provider="anthropic",
            response_model="chosen-2025-01-01",
        )
    )
    tracer.on_event(TurnCompleted(**TURN, final_response="no"))
    recall, retried, compaction, chat, _, turn = kept.get_finished_spans()
    assert (recall.name, seconds(recall)) == ("recall", 1.5)
    assert dict(recall.attributes or {}) == {"holdfast.memory.providers": "local, other"}
    assert (retried.name, (retried.attributes or {})["gen_ai.provider.name"]) == ("chat usual", "_OTHER")
    assert (compaction.name, seconds(compaction)) == ("compaction", 4)
    assert dict(compaction.attributes or {}) == {"holdfast.outcome": "shorter"}
    told = dict(chat.attributes or {})
    assert (chat.name, seconds(chat)) == ("chat chosen", 8)
    assert told["gen_ai.provider.name"] == "anthropic"
    assert (told["gen_ai.request.model"], told["gen_ai.response.model"]) == ("chosen", "chosen-2025-01-01")
    assert told["gen_ai.response.finish_reasons"] == ("content_filter",)
    whole = dict(turn.attributes or {})
    assert (whole["gen_ai.provider.name"], whole["gen_ai.request.model"]) == ("anthropic", "chosen")
