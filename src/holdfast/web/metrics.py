"""The metrics for Prometheus at `/metrics`: requests, streams, turns, tools, the model, owed deliveries."""

import platform

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from holdfast import __version__
from holdfast.core import errors
from holdfast.core.errors import ModelFailure
from holdfast.core.events import (
    TURN_ENDS,
    Event,
    ModelRetrying,
    StepFinished,
    TextDelta,
    ToolFinished,
    TurnCompleted,
    TurnEnd,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.host import HostStatus

ENDS = {TurnCompleted: "completed", TurnInterrupted: "interrupted", TurnFailed: "failed"}
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
MOST_TURNS = 10_000
"""How many turns without an end are kept."""
MOST_TOOLS = 200
"""How many tools are counted by their names."""


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self._requests = Counter(
            "holdfast_requests", "Requests", ["method", "route", "status"], registry=registry
        )
        self._seconds = Histogram(
            "holdfast_request_seconds",
            "Seconds until the answer began",
            ["method", "route"],
            buckets=SECONDS,
            registry=registry,
        )
        self._turns = Counter("holdfast_turns", "Turns that ended", ["end"], registry=registry)
        self._tokens = Counter("holdfast_tokens", "Tokens of the model", ["kind"], registry=registry)
        self._tools = Counter(
            "holdfast_tool_calls", "Tool calls that ended", ["tool", "end"], registry=registry
        )
        self._model_errors = Counter(
            "holdfast_model_errors", "Requests to the model that failed", ["end"], registry=registry
        )
        build = Gauge("holdfast_build_info", "The program", ["version", "python"], registry=registry)
        build.labels(__version__, platform.python_version()).set(1)
        self._first = Histogram(
            "holdfast_turn_first_token_seconds",
            "Seconds from a turn's start to its first text",
            buckets=SECONDS,
            registry=registry,
        )
        self._whole = Histogram(
            "holdfast_turn_seconds", "Seconds that turns took", buckets=SECONDS, registry=registry
        )
        self._streams = Gauge("holdfast_event_streams", "Event streams open now", registry=registry)
        self._running = Gauge("holdfast_turns_running", "Turns that run now", registry=registry)
        self._waiting = Gauge(
            "holdfast_sessions_waiting", "Sessions in which messages wait", registry=registry
        )
        self._owed = Gauge("holdfast_memory_owed", "Turns owed to memory", ["provider"], registry=registry)
        self._aside = Gauge("holdfast_memory_set_aside", "Turns set aside", ["provider"], registry=registry)
        self._oldest = Gauge(
            "holdfast_memory_oldest_owed_seconds", "Age of the oldest owed", ["provider"], registry=registry
        )
        self._failing = Gauge(
            "holdfast_memory_failing", "1 while a provider is down", ["provider"], registry=registry
        )
        self._begun: dict[str, tuple[float, bool]] = {}
        # Looked up here, so that each is shown as 0 before the first turn.
        self._ends = {kind: self._turns.labels(end) for kind, end in ENDS.items()}
        self._again, self._final = (self._model_errors.labels(end) for end in ("tried_again", "turn_failed"))
        self._tool_names: set[str] = set()
        self._spent = [self._tokens.labels(kind) for kind in ("input", "output", "cached")]

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        # All unknown paths count as one route, so that a client can't fill the memory with names.
        known = (method, route) if route else ("(any)", "(none)")
        self._requests.labels(*known, str(status)).inc()
        self._seconds.labels(*known).observe(seconds)

    def record(self, event: Event, at: float) -> None:
        """Count an event of a conversation; `at` is the time in seconds."""
        if isinstance(event, TextDelta):
            begun, spoke = self._begun.get(event.turn_id, (at, True))
            if not spoke:
                self._begun[event.turn_id] = (begun, True)
                self._first.observe(at - begun)
        elif isinstance(event, TurnStarted):
            if len(self._begun) >= MOST_TURNS:
                self._begun.clear()
            self._begun[event.turn_id] = (at, False)
        elif isinstance(event, StepFinished):
            spent = (event.input_tokens, event.output_tokens, event.cached_tokens)
            for counter, tokens in zip(self._spent, spent, strict=True):
                counter.inc(tokens)
        elif isinstance(event, ToolFinished):
            self._tools.labels(self._tool_label(event.name), "ok" if event.ok else "failed").inc()
        elif isinstance(event, ModelRetrying):
            self._again.inc()
        elif isinstance(event, TURN_ENDS):
            self._ended(event, at)

    def _ended(self, event: TurnEnd, at: float) -> None:
        self._ends[type(event)].inc()
        if isinstance(event, TurnFailed) and _is_models(event):
            self._final.inc()
        begun, _ = self._begun.pop(event.turn_id, (at, True))
        self._whole.observe(at - begun)

    def _tool_label(self, name: str) -> str:
        # A model may call any name, and must not fill the memory with them.
        if len(self._tool_names) < MOST_TOOLS:
            self._tool_names.add(name)
        return name if name in self._tool_names else "(others)"

    def render(self, status: HostStatus, streams: int) -> tuple[bytes, str]:
        """All metrics as text, and their content type."""
        self._streams.set(streams)
        self._running.set(len(status.running))
        self._waiting.set(len(status.waiting))
        for each in status.memory:
            self._owed.labels(each.provider).set(each.owed)
            self._aside.labels(each.provider).set(each.set_aside)
            self._oldest.labels(each.provider).set(each.oldest_owed_seconds or 0)
            self._failing.labels(each.provider).set(each.circuit == "open")
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


def _is_models(failed: TurnFailed) -> bool:
    """Whether the model's failure ended the turn."""
    kind = getattr(errors, failed.failure, None)
    return isinstance(kind, type) and issubclass(kind, ModelFailure)
