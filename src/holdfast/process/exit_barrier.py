"""`ExitBarrier`: the interpreter's exit waits for work on a daemon thread.

At exit a daemon thread is abandoned. A C++ or Rust library that is being loaded at this moment makes the
process abort. Loading always ends, so the exit waits for it. Never use this for work that may hang.
"""

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MAX_SECONDS = 30.0


class ExitBarrier:
    """Create it before the thread, so that its exit hook runs after the hooks of everything created later.

    Python calls exit hooks in the reverse order of their registration. It does not call a hook that is
    registered after the exit has begun.
    """

    def __init__(self, seconds: float = MAX_SECONDS) -> None:
        self._seconds = seconds
        self._idle = threading.Event()
        self._idle.set()
        atexit.register(self._wait)

    @contextmanager
    def hold_exit(self) -> Iterator[None]:
        """Make the exit wait while the body runs. Only one thread may use it at a time."""
        self._idle.clear()
        try:
            yield
        finally:
            self._idle.set()

    def close(self) -> None:
        """Remove the exit hook: the exit waits no longer."""
        atexit.unregister(self._wait)

    def _wait(self) -> None:
        self._idle.wait(self._seconds)
