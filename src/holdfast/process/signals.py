"""Owns what SIGINT, SIGTERM and SIGHUP do: all three ask for the same bounded stop (X4).

A Python handler interrupts the main thread anywhere, also inside the lock of the very event it
would set, and it waits as long as the main thread is blocked in C. So a thread of its own hears the
signals through a pipe, sets the events and calls back. Read `shutdown_budget.py` for what the
second Ctrl-C expires.
"""

import contextlib
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from holdfast.process.last_words import write_stderr

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Bytes in the pipe: a signal's number, with this added when the Python handler wrote it; 0 ends.
BY_HANDLER = 128


def exit_code_for(signum: int) -> int:
    """The code a shell shows for a process that a signal ended."""
    return 128 + signum


class StopSignals:
    """Turns signals into a stop request while installed.

    - The first of the three sets `requested` and calls `on_stop`.
    - Ctrl-C after that sets `hurry` and calls `on_hurry`: skip what is left.
    - Ctrl-C after that ends the process at once; what was acknowledged is on disk.

    Only Ctrl-C escalates: session managers send SIGTERM and SIGHUP together and mean one stop.
    Callbacks run on the thread "stop-signals" and must be quick; with an event loop, pass one that
    uses `loop.call_soon_threadsafe`. A signal that was ignored at the start (nohup) stays ignored.
    """

    def __init__(
        self,
        *,
        on_stop: Callable[[signal.Signals], object] | None = None,
        on_hurry: Callable[[signal.Signals], object] | None = None,
    ) -> None:
        self.requested = threading.Event()
        self.hurry = threading.Event()
        self.received: signal.Signals | None = None  # the one that asked for the stop
        self._on_stop = on_stop
        self._on_hurry = on_hurry
        self._previous: dict[signal.Signals, Any] = {}
        self._listener: threading.Thread | None = None
        self._process = 0
        self._pipe = -1

    def install(self) -> None:
        """Take the signals over. Main thread only."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("signal handlers can only be installed in the main thread")
        if self._listener is not None:
            return
        if not self._process:
            os.register_at_fork(after_in_child=self._let_go_of_wakeup)
        self._process = os.getpid()
        ear, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        self._listener = threading.Thread(target=self._listen, args=(ear,), name="stop-signals", daemon=True)
        self._listener.start()
        for signum in STOP_SIGNALS:
            previous = signal.getsignal(signum)
            if previous != signal.SIG_IGN:
                self._previous[signum] = signal.SIG_DFL if previous is None else previous
                signal.signal(signum, self._handle)
        # Python's C handler writes here at once, whatever the main thread does. asyncio may own or
        # take this place for its loop; that wakes the main thread, and `_handle` writes instead.
        taken = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        if taken != -1:
            signal.set_wakeup_fd(taken)

    def restore(self) -> None:
        """Give the signals back to who had them. Main thread only."""
        if self._listener is None:
            return
        for signum, previous in self._previous.items():
            signal.signal(signum, previous)
        self._previous.clear()
        self._let_go_of_wakeup()
        os.write(self._pipe, b"\0")
        os.close(self._pipe)
        self._pipe = -1
        self._listener.join(timeout=1.0)
        self._listener = None

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.restore()

    def _let_go_of_wakeup(self) -> None:
        # Also runs in a forked child, which shares the pipe: its signals are not this process's.
        owner = signal.set_wakeup_fd(-1)
        if owner not in {-1, self._pipe}:
            with contextlib.suppress(OSError, ValueError):  # its owner has closed it meanwhile
                signal.set_wakeup_fd(owner)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            # A forked child has the handler but no listener; there the signal does what it did.
            signal.signal(number, self._previous[signal.Signals(number)])
            signal.raise_signal(number)
            return
        with contextlib.suppress(BlockingIOError):  # thousands wait to be heard already
            os.write(self._pipe, bytes([BY_HANDLER + number]))

    def _listen(self, ear: int) -> None:
        heard: Counter[int] = Counter()
        with open(ear, "rb", buffering=0) as pipe:
            while byte := ord(pipe.read(1) or b"\0"):
                heard[byte] += 1
                # Most signals come twice, from C and from the handler; the first to come counts.
                if heard[byte] > heard[byte ^ BY_HANDLER]:
                    number = byte % BY_HANDLER
                    if number in STOP_SIGNALS:
                        self._obey(signal.Signals(number))

    def _obey(self, signum: signal.Signals) -> None:
        if not self.requested.is_set():
            self.received = signum
            self._announce(self.requested, self._on_stop, signum)
        elif signum == signal.SIGINT and not self.hurry.is_set():
            self._announce(self.hurry, self._on_hurry, signum)
        elif signum == signal.SIGINT:
            write_stderr("holdfast: stopped at once; what is owed will be sent at the next start\n")
            os._exit(exit_code_for(signum))

    def _announce(
        self,
        event: threading.Event,
        call_back: Callable[[signal.Signals], object] | None,
        signum: signal.Signals,
    ) -> None:
        event.set()
        if call_back is not None:
            try:
                call_back(signum)
            except Exception:
                logger.exception("signals.callback_failed", extra={"signal": signum.name})
