"""Spans leave the program by OpenTelemetry's protocol, where the settings ask for it."""

import asyncio
import sys

import pytest

from holdfast.core.events import TurnCompleted, TurnStarted
from holdfast.core.settings import HostSettings
from holdfast.models.contract import ModelTraits
from holdfast.process import DaemonPool, off_loop
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.wiring.telemetry import close_telemetry, open_telemetry

EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


def usual() -> ModelTraits:
    return ModelTraits("m", 1000, provider="maker")


def test_nothing_is_listened_to_unless_it_is_asked_for() -> None:
    assert open_telemetry(HostSettings(), usual) is None


def test_without_its_extra_the_problem_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    opened = open_telemetry(HostSettings(otel=True), usual)
    assert opened is not None
    [problem] = opened.problems
    assert "otel" in problem
    opened.on_event(TurnStarted(session_id="s", turn_id="t", inbox_id=0, text="hello"))
    opened.close()


def test_the_spans_of_a_turn_are_sent_at_the_end_at_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(EXPORTER, reason="the extra `otel` is not installed")

    async def collect(_: HttpRequest, answer: HttpAnswer) -> None:
        await answer.reply(200, b"", {"content-type": "application/x-protobuf"})

    async def scenario() -> list[HttpRequest]:
        pool = DaemonPool("telemetry", 1, 1)
        async with LoopbackServer(collect) as collector:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
            opened = await off_loop(pool, open_telemetry, HostSettings(otel=True), usual)
            assert opened is not None
            opened.on_event(TurnStarted(session_id="s", turn_id="t", inbox_id=0, text="a secret"))
            opened.on_event(TurnCompleted(session_id="s", turn_id="t", final_response="done"))
            await close_telemetry(opened, pool)
            pool.close(1.0)
            return collector.requests

    [request] = asyncio.run(scenario())
    assert (request.method, request.path) == ("POST", "/v1/traces")
    for words in (b"invoke_agent holdfast", b"gen_ai.provider.name", b"maker", b"service.name"):
        assert words in request.body
    assert b"a secret" not in request.body
