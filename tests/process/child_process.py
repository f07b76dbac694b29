"""A real child process, for what can only be seen from outside: exits and signals."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable

DEADLINE = 120.0
# A test run started in the background ignores these, and its children would inherit that.
HEARING = (
    "import signal as _s; _s.signal(_s.SIGINT, _s.default_int_handler);"
    "[_s.signal(each, _s.SIG_DFL) for each in (_s.SIGTERM, _s.SIGHUP, _s.SIGQUIT)];"
)


class Child:
    """A Python process that runs `script`; killed at the deadline, so no read waits for ever."""

    def __init__(self, script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", HEARING + textwrap.dedent(script)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
            text=True,
            start_new_session=True,
        )
        self._deadline = threading.Timer(DEADLINE, self._kill)
        self._deadline.start()

    def line(self) -> str:
        """The next line the child prints; empty when it printed its last."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def send(self, signum: int) -> None:
        self._process.send_signal(signum)

    def wait(self) -> int:
        """Wait for the end without reading what the child writes."""
        return self._process.wait()

    def end(self) -> tuple[int, str, str]:
        """Exit code, the rest of stdout, and stderr."""
        # Not `communicate`: it does not see what `line` has read ahead.
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        err: list[str] = []
        reader = threading.Thread(target=lambda pipe: err.append(pipe.read()), args=(self._process.stderr,))
        reader.start()
        out = self._process.stdout.read()
        reader.join()
        return self._process.wait(), out, err[0]

    def close(self) -> None:
        self._deadline.cancel()
        self._kill()
        with self._process:  # closes the pipes and waits
            pass

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with the children it may have forked


StartChild = Callable[[str], Child]
