"""Work on a daemon thread that the interpreter's exit waits for.

A daemon thread is left behind at exit, which a C++ or Rust library that is just being loaded does not
survive: the process aborts. Loading is finite, so the exit waits for it. Nothing that can wedge belongs here.
"""

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 30.0


class Unbroken:
    """Made before the thread is, so that its hook runs after those of everything made later.

    Python calls exit hooks in the reverse order of their registration, and none that is registered once the
    exit has begun.
    """

    def __init__(self, seconds: float = LONGEST_SECONDS) -> None:
        self._seconds = seconds
        self._idle = threading.Event()
        self._idle.set()
        atexit.register(self._wait)

    @contextmanager
    def section(self) -> Iterator[None]:
        """What the exit waits for. One at a time."""
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def close(self) -> None:
        """Nothing is waited for any more."""
        atexit.unregister(self._wait)

    def _wait(self) -> None:
        self._idle.wait(self._seconds)
