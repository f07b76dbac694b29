"""SIGTERM and SIGHUP end a command as Ctrl-C does: by an exception, so that it cleans up behind itself.

For commands that do one thing and end. What serves for long uses `process/signals.py` instead.
"""

import signal
from types import FrameType

from holdfast.core.stopping import Stopped

ENDING = (signal.SIGTERM, signal.SIGHUP)


def raise_on_signals() -> None:
    """From now on both signals raise `Stopped` in the main thread."""
    for signum in ENDING:
        # What was ignored at the start (nohup) stays ignored.
        if signal.getsignal(signum) == signal.SIG_DFL:
            signal.signal(signum, _stop)


def _stop(signum: int, _frame: FrameType | None) -> None:
    # Both often come together and mean one stop; the second must not end the cleaning up.
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(signum)
