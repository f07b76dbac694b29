"""The clock adapter: the one place that reads the machine's time.

Everything else receives a `Clock`, so that tests can advance time instead of waiting for it.
"""

import threading
import time


class SystemClock:
    """Time as the machine tells it."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, stop: threading.Event, timeout: float) -> bool:
        return stop.wait(timeout)
