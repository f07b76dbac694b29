"""Gates that hold a provider until the test lets it go, and deadlines that fail instead of hanging."""

import threading
from collections.abc import Callable

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
    tick = threading.Event()
    for _ in range(int(DEADLINE / 0.005)):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("the condition never came true")
