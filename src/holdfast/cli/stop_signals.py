"""SIGTERM and SIGHUP end a short command as Ctrl-C does: by an exception, so that it cleans up.

Commands that run a host use `process/signals.py` instead.
"""

import signal
from types import FrameType

from holdfast.core.stop_signal import StoppedBySignal

ENDING = (signal.SIGTERM, signal.SIGHUP)


def raise_on_signals() -> None:
    """From now on both signals raise `StoppedBySignal` in the main thread."""
    for signum in ENDING:
        # A signal that was ignored at the start (nohup) stays ignored.
        if signal.getsignal(signum) == signal.SIG_DFL:
            signal.signal(signum, _stop)


def _stop(signum: int, _frame: FrameType | None) -> None:
    # Both often come together; the second must not interrupt the cleanup.
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise StoppedBySignal(signum)
