"""`StopSignals`: SIGINT, SIGTERM and SIGHUP all ask for the same stop, which has a time limit (X4).

A Python signal handler interrupts the main thread anywhere, even inside the lock of the event that it wants
to set, and it waits while the main thread is blocked in C code. So a separate thread receives the signals
through a pipe, sets the events and calls the callbacks. The second Ctrl-C expires the budget of
`shutdown_budget.py`.
"""

import contextlib
import logging
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from holdfast.process.raw_stderr import write_stderr

logger = logging.getLogger(__name__)

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A byte in the pipe is the number of a signal, plus this when the Python handler wrote it. 0 ends the thread.
BY_HANDLER = 128


def exit_code_for(signum: int) -> int:
    """The exit code that a shell shows for a process that a signal ended."""
    return 128 + signum


class StopSignals:
    """Turns signals into a stop request while installed.

    - The first of the three sets `requested` and calls `on_stop`.
    - Ctrl-C after that sets `skip_requested` and calls `on_skip`: skip the remaining steps.
    - Ctrl-C after that ends the process at once; everything acknowledged is on disk.

    Only Ctrl-C escalates: session managers send SIGTERM and SIGHUP together and mean one stop. Callbacks run
    on the thread "stop-signals" and must be quick; with an event loop, use `loop.call_soon_threadsafe` in
    them. A signal that was ignored at the start (nohup) stays ignored.
    """

    def __init__(
        self,
        *,
        on_stop: Callable[[signal.Signals], object] | None = None,
        on_skip: Callable[[signal.Signals], object] | None = None,
    ) -> None:
        self.requested = threading.Event()
        self.skip_requested = threading.Event()
        self.received: signal.Signals | None = None  # the one that asked for the stop
        self._on_stop = on_stop
        self._on_skip = on_skip
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
            os.register_at_fork(after_in_child=self._release_wakeup_fd)
        self._process = os.getpid()
        read_end, self._pipe = os.pipe()
        os.set_blocking(self._pipe, False)
        self._listener = threading.Thread(
            target=self._listen, args=(read_end,), name="stop-signals", daemon=True
        )
        self._listener.start()
        for signum in STOP_SIGNALS:
            previous = signal.getsignal(signum)
            if previous != signal.SIG_IGN:
                self._previous[signum] = signal.SIG_DFL if previous is None else previous
                signal.signal(signum, self._handle)
        # Python's C handler writes here at once, whatever the main thread does. asyncio may use the wakeup
        # descriptor for its loop; that wakes the main thread, and `_handle` writes instead.
        taken = signal.set_wakeup_fd(self._pipe, warn_on_full_buffer=False)
        if taken != -1:
            signal.set_wakeup_fd(taken)

    def restore(self) -> None:
        """Restore the previous handlers. Main thread only."""
        if self._listener is None:
            return
        for signum, previous in self._previous.items():
            signal.signal(signum, previous)
        self._previous.clear()
        self._release_wakeup_fd()
        os.write(self._pipe, b"\0")
        os.close(self._pipe)
        self._pipe = -1
        self._listener.join(timeout=1.0)
        self._listener = None

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *exception: object) -> None:
        self.restore()

    def _release_wakeup_fd(self) -> None:
        # Also runs in a forked child, which shares the pipe but must not report its own signals there.
        owner = signal.set_wakeup_fd(-1)
        if owner not in {-1, self._pipe}:
            with contextlib.suppress(OSError, ValueError):  # its owner has closed it meanwhile
                signal.set_wakeup_fd(owner)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if os.getpid() != self._process:
            # A forked child has the handler but no listener thread; there the previous handler acts.
            signal.signal(number, self._previous[signal.Signals(number)])
            signal.raise_signal(number)
            return
        with contextlib.suppress(BlockingIOError):  # thousands of signals wait already
            os.write(self._pipe, bytes([BY_HANDLER + number]))

    def _listen(self, read_end: int) -> None:
        counts: Counter[int] = Counter()
        with open(read_end, "rb", buffering=0) as pipe:
            while byte := ord(pipe.read(1) or b"\0"):
                counts[byte] += 1
                # Most signals come twice, from C and from the handler. Only the first of the two counts.
                if counts[byte] > counts[byte ^ BY_HANDLER]:
                    number = byte % BY_HANDLER
                    if number in STOP_SIGNALS:
                        self._handle_stop(signal.Signals(number))

    def _handle_stop(self, signum: signal.Signals) -> None:
        if not self.requested.is_set():
            self.received = signum
            self._announce(self.requested, self._on_stop, signum)
        elif signum == signal.SIGINT and not self.skip_requested.is_set():
            self._announce(self.skip_requested, self._on_skip, signum)
        elif signum == signal.SIGINT:
            write_stderr("holdfast: stopped at once; what is owed to memory is sent at the next start\n")
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
