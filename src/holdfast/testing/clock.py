"""A clock that only moves when a test says so."""

import threading


class FakeClock:
    """Stands still until `advance`; waiters wake when their time has come or their event is set."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._moved = threading.Condition()  # guards _now and _waiting
        self._start = start
        self._now = start
        self._waiting = 0

    def now(self) -> float:
        with self._moved:
            return self._now

    def monotonic(self) -> float:
        with self._moved:
            return self._now - self._start

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass at once."""
        with self._moved:
            self._now += seconds
            self._moved.notify_all()

    def wait(self, stop: threading.Event, timeout: float) -> bool:
        with self._moved:
            deadline = self._now + timeout
            self._waiting += 1
            self._moved.notify_all()
            try:
                # An event can't wake this condition, so it is checked in short steps of real time.
                while not stop.is_set() and self._now < deadline:
                    self._moved.wait(0.01)
            finally:
                self._waiting -= 1
            return stop.is_set()

    def wait_for_waiters(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Block until `count` threads wait on this clock; False when they don't in real `timeout` s."""
        with self._moved:
            return self._moved.wait_for(lambda: self._waiting >= count, timeout)
