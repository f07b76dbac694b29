"""Gates that hold a provider until the test lets it go, and deadlines that fail instead of hanging."""

import threading
import time
from collections.abc import Callable

from tests.polling import pauses

DEADLINE = 120.0


class Gate:
    """Closed until opened. Whoever runs into it says so first."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def __call__(self, *_: object) -> None:
        self.reached.set()
        if not self._open.wait(DEADLINE):
            raise AssertionError("the gate was never opened")

    def open(self) -> None:
        self._open.set()

    def wait_reached(self) -> None:
        assert self.reached.wait(DEADLINE), "nobody came to the gate"


def until(condition: Callable[[], bool]) -> None:
    """Wait for an observable condition, looked at often, under a deadline."""
    deadline, tick, looks = time.monotonic() + DEADLINE, threading.Event(), pauses()
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        tick.wait(next(looks))
