"""`ShutdownBudget`: one deadline for all steps of a shutdown, with the names of the steps that still run.

Three steps of five seconds each may take fifteen seconds one after another; with one shared budget of five
seconds they take five at most. Read `contract.py` first.
"""

import contextlib
import math
import threading
from collections.abc import Iterator

from holdfast.core.contract import Clock
from holdfast.process.contract import StageTime

# How long a wait may continue after `expire`: short for a person, long for a processor.
POLL_SECONDS = 0.05


class ShutdownBudget:
    """The time starts when the object is created. Any thread may use it."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"a shutdown budget is a number of seconds from 0, not {seconds}")
        self.seconds = seconds
        self._clock = clock
        self._started = clock.monotonic()
        self._skipped = threading.Event()
        # Guards writes to the two tuples; they are replaced whole, so reading needs no lock.
        self._lock = threading.Lock()
        self._open: tuple[str, ...] = ()
        self._ended: tuple[StageTime, ...] = ()

    @property
    def spent(self) -> float:
        return self._clock.monotonic() - self._started

    @property
    def expired(self) -> bool:
        return self.remaining() <= 0

    @property
    def waiting_for(self) -> tuple[str, ...]:
        """The stages that run now, the oldest first. Takes no lock, because a watchdog calls it."""
        return self._open

    @property
    def stages(self) -> tuple[StageTime, ...]:
        """The stages that have ended, in order, with the time that each took."""
        return self._ended

    def remaining(self) -> float:
        return 0.0 if self._skipped.is_set() else max(0.0, self.seconds - self.spent)

    def allow(self, at_most: float) -> float:
        """The timeout for one step: `at_most` seconds, or less when less remains."""
        return max(0.0, min(at_most, self.remaining()))

    def expire(self) -> None:
        """Skip the remaining time: nothing remains from now on, and running `wait` calls return."""
        self._skipped.set()

    def wait(self, done: threading.Event, at_most: float = math.inf) -> bool:
        """Wait for `done` while time remains, up to `at_most` seconds; True when it is set."""
        give_up = self.spent + at_most
        while not done.is_set() and (left := min(self.remaining(), give_up - self.spent)) > 0:
            self._clock.wait(done, min(left, POLL_SECONDS))
        return done.is_set()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Name the step while the body runs, and record the time that it took."""
        began = self.spent
        with self._lock:
            self._open += (name,)
        try:
            yield
        finally:
            with self._lock:
                at = self._open.index(name)
                self._open = self._open[:at] + self._open[at + 1 :]
                self._ended += (StageTime(name, self.spent - began),)
