"""Turns become OpenTelemetry spans, with nothing that was said unless that is asked for."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import TurnError
from holdfast.host import SessionHost
from holdfast.host.turn_tracer import TurnTracer
from holdfast.sessions import SessionDB
from holdfast.testing.scripted_model import Call, Tokens
from tests.agent.agent_fixtures import echo
from tests.host.host_fixtures import host_parts

Wait = Callable[[Awaitable[Any]], Any]
pytest.importorskip("opentelemetry.sdk", reason="the extra `otel` is not installed")


@pytest.mark.parametrize("content", [False, True])
def test_a_turn_is_a_trace_of_its_answers_and_calls(wait: Wait, content: bool) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = TurnTracer(provider.get_tracer("t"), lambda: "m", SystemClock(), content=content)
    script = [[Call("echo", {"text": "secret"}), Tokens(100, 7)], "the secret answer", ValueError("broken")]

    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            parts = host_parts(db, script, tools=[echo()])
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
    failed = spans[-1]
    assert (failed.name, failed.status.is_ok) == ("invoke_agent holdfast", False)
    said = json.dumps([dict(each.attributes or {}) for each in spans])
    assert ("secret" in said) is content
