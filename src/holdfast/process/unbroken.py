"""Work that the interpreter's exit waits for, although it runs on a daemon thread.

A daemon thread is left behind at exit, which a C++ or Rust library that is just being loaded does not
survive: the process aborts. Loading is finite, so the exit waits for it. Nothing that can wedge belongs here.
"""

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_SECONDS = 30.0


@contextmanager
def unbroken(seconds: float = LONGEST_SECONDS) -> Iterator[None]:
    """Have an exit that begins meanwhile wait until this is done, at most so long."""
    done = threading.Event()

    def wait() -> None:
        done.wait(seconds)

    atexit.register(wait)
    try:
        yield
    finally:
        done.set()
        atexit.unregister(wait)
