"""What Prometheus reads at `/metrics`: requests, streams, turns, tokens and what memory is owed."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "holdfast_requests", "Requests", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "holdfast_request_seconds", "How long requests took", ["route"], registry=self.registry
        )
        self.streams = Gauge("holdfast_event_streams", "Event streams open now", registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        # Paths that lead nowhere are one route: else a stranger could fill the memory with names.
        known = route or "(none)"
        self._requests.labels(method if route else "(any)", known, str(status)).inc()
        self._seconds.labels(known).observe(seconds)
