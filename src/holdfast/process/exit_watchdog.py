"""`ExitWatchdog`: ends a process whose clean-up is stuck, and reports what is stuck.

There are three layers. Each one works in cases where the layer before it can't. Read `raw_stderr.py` first.

1. A daemon thread. It still runs while `threading._shutdown` joins other threads and while atexit handlers
   run. It names the part that is stuck and exits with `EXIT_STUCK`.
2. `faulthandler.dump_traceback_later`: a C thread that needs no GIL. It prints every stack even when C code
   holds the GIL, or when the interpreter runs no Python thread any more.
3. `setitimer`: the kernel ends the process by SIGALRM (142 in a shell), even after the interpreter has ended.
   faulthandler could exit too, but only with code 1, which tells nothing. So it exits only where SIGALRM is
   not available.
"""

import contextlib
import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from holdfast.core.contract import Clock
from holdfast.process.raw_stderr import STDERR, WRITE_SECONDS, has_stderr, write_stderr

EXIT_STUCK = 86
MAX_SECONDS = 86_400.0
# The thread may need WRITE_SECONDS to write; the stacks come after that, and the kernel comes last.
DUMP_GRACE = WRITE_SECONDS + 1.0
KILL_GRACE = DUMP_GRACE + 1.0


class ExitWatchdog:
    """Arm it when clean-up starts (X2). Use one per process: the alarm and the stack dump are process-wide.

    Disarm it before `exec`, because the kernel's timer continues after that call.
    """

    def __init__(
        self,
        seconds: float = 30.0,
        *,
        clock: Clock,
        exit_process: Callable[[int], object] = os._exit,
    ) -> None:
        if not 0 < seconds <= MAX_SECONDS:
            raise ValueError(f"the exit watchdog needs 0 to {MAX_SECONDS:.0f} seconds, not {seconds}")
        self._seconds = seconds
        self._clock = clock
        self._exit_process = exit_process
        self._lock = threading.Lock()  # guards the fields below
        self._disarmed: threading.Event | None = None
        self._stuck: Callable[[], str] | None = None
        self._has_alarm = False

    def arm(self, stuck: Callable[[], str] | None = None) -> None:
        """Start the time limit. `stuck` names what clean-up waits for; it must be quick and take no lock.

        A second call replaces `stuck` and does not give more time.
        """
        with self._lock:
            self._stuck = stuck or self._stuck
            if self._disarmed is not None:
                return
            self._disarmed = threading.Event()
            self._set_backstop()
            watch = threading.Thread(
                target=self._watch, args=(self._disarmed,), name="exit-watchdog", daemon=True
            )
            with contextlib.suppress(RuntimeError):
                # Python 3.12 starts no thread once atexit handlers run; then only layers 2 and 3 work.
                watch.start()

    def disarm(self) -> None:
        """Clean-up is done: stop the thread, the stack dump and the alarm."""
        with self._lock:
            if self._disarmed is None:
                return
            self._disarmed.set()
            self._disarmed = self._stuck = None
            faulthandler.cancel_dump_traceback_later()
            if self._has_alarm:
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._has_alarm = False

    def _set_backstop(self) -> None:
        self._has_alarm = _alarm_is_free()
        out = STDERR if has_stderr() else os.open(os.devnull, os.O_WRONLY)
        faulthandler.dump_traceback_later(self._seconds + DUMP_GRACE, exit=not self._has_alarm, file=out)
        if self._has_alarm:
            signal.setitimer(signal.ITIMER_REAL, self._seconds + KILL_GRACE)

    def _watch(self, disarmed: threading.Event) -> None:
        if self._clock.wait(disarmed, self._seconds):
            return
        try:
            write_stderr(self._report())
        finally:
            self._exit_process(EXIT_STUCK)

    def _report(self) -> str:
        # This takes no lock of this object and reads no source file, because either may be stuck.
        known = {thread.ident: thread for thread in threading.enumerate()}
        stacks = [
            _Stack(known.get(ident), ident, list(_frames(top)))
            for ident, top in sys._current_frames().items()  # noqa: SLF001 - the documented way
            if ident != threading.get_ident()
        ]
        what = self._named() or ", ".join(map(str, filter(_Stack.is_waited_for, stacks)))
        lines = [f"holdfast: clean-up did not end within {self._seconds:g} s; stuck: {what}"]
        for stack in stacks:
            lines += ["", f"Thread {stack.name} (most recent call first):", *stack.frames]
        return "\n".join(lines) + "\n"

    def _named(self) -> str:
        if self._stuck is None:
            return ""
        try:
            return " ".join(self._stuck().split())
        except Exception as failure:  # noqa: BLE001 - reported here, and the process ends in a moment
            return f"(could not be named: {failure!r})"


class _Stack:
    def __init__(self, thread: threading.Thread | None, ident: int, frames: list[str]) -> None:
        self.thread = thread
        self.name = thread.name if thread else f"{ident}"
        self.frames = frames

    def is_waited_for(self) -> bool:
        """Whether the interpreter can't exit before this thread ends."""
        return self.thread is not None and not self.thread.daemon

    def __str__(self) -> str:
        return f"{self.name} at {self.frames[0].strip()}"


def _frames(top: FrameType | None) -> Iterator[str]:
    while top is not None:
        code = top.f_code
        yield f'  File "{code.co_filename}", line {top.f_lineno}, in {code.co_name}'
        top = top.f_back


def _alarm_is_free() -> bool:
    """Whether our timer would end the process without disturbing a timer of other code."""
    return (
        signal.getsignal(signal.SIGALRM) == signal.SIG_DFL
        and signal.SIGALRM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        and os.getpid() != 1  # the kernel does not end the first process of a container
    )
