"""The clock adapter: the only module that reads the machine's time.

All other code receives a `Clock`, so that tests can advance time instead of waiting.
"""

import threading
import time


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, stop: threading.Event, timeout: float) -> bool:
        return stop.wait(timeout)
