"""Exports the spans of turns by OpenTelemetry's protocol, when the settings ask for it (extra `otel`).

Where they go is said by OpenTelemetry's own variables, such as `OTEL_EXPORTER_OTLP_ENDPOINT`.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from holdfast.core.clock import SystemClock
from holdfast.core.distribution import install_command
from holdfast.core.events import Event
from holdfast.core.settings import HostSettings
from holdfast.models.contract import ModelTraits
from holdfast.process import DaemonPool, off_loop

CLOSE_SECONDS = 2.0
"""How long the last spans may take to be sent at the end."""


def _ignore_event(_: Event) -> None:
    pass


def _nothing_to_close() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What listens to events, and what sends the rest at the end; a problem when it can't be used."""

    on_event: Callable[[Event], None] = _ignore_event
    close: Callable[[], object] = _nothing_to_close
    problems: tuple[str, ...] = ()


def open_telemetry(settings: HostSettings, model: Callable[[], ModelTraits]) -> Telemetry | None:
    """Listen to turns and export them; None when it is off. May import for a while: call it off the loop."""
    if not settings.otel:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as cause:
        said = f"telemetry is off: {cause.name} is not installed. Install it with: {install_command('otel')}"
        return Telemetry(problems=(said,))
    from holdfast import __version__
    from holdfast.host.turn_tracer import TurnTracer

    resource = Resource.create({"service.name": "holdfast", "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    # A thread of its own sends; what does not fit its queue is dropped, and no turn waits.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = TurnTracer(
        provider.get_tracer("holdfast", __version__), model, SystemClock(), content=settings.otel_content
    )

    return Telemetry(tracer.on_event, partial(provider.force_flush, int(CLOSE_SECONDS * 1000)))


async def close_telemetry(telemetry: Telemetry | None, pool: DaemonPool) -> None:
    """Send the last spans. A collector that does not answer is not waited for."""
    if telemetry is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await off_loop(pool, telemetry.close)
