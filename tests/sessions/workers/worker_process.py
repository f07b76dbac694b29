"""The parent's side of a worker process: start it, hear what it has done, kill it.

A worker writes one line after each call that returned. A line is one write of less than a pipe's
atomic size, so what a killed worker said is whole lines, and stays readable after its death.
"""

import json
import os
import random
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

CHECKOUT = Path(__file__).resolve().parents[3]
DEADLINE = 60.0


class Worker:
    """A real process that runs one scenario of `scenarios.py`."""

    def __init__(self, scene: str, url: str, **arguments: object) -> None:
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sessions.workers.scenarios", scene, url, json.dumps(arguments)],
            cwd=CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._commands = self._process.stdin
        self.output = self._process.stdout
        os.set_blocking(self.output.fileno(), False)
        self._rest = b""
        self._answered = 0
        self.said: list[Any] = []
        """Everything heard so far."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._commands.close()
        self.output.close()
        self._complaints.close()

    def hear(self, timeout: float = DEADLINE) -> bool:
        """Wait until the worker says something more; False when it never will again."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            assert selector.select(timeout), f"silent for {timeout:g} s: {self.complaints()}"
        chunk = os.read(self.output.fileno(), 1 << 20)
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self.said += [json.loads(line) for line in lines]
        return bool(chunk)

    def wait_for(self, count: int, timeout: float = DEADLINE) -> None:
        """Wait until the worker has said `count` things in all."""
        deadline = time.monotonic() + timeout
        while len(self.said) < count:
            left = deadline - time.monotonic()
            assert left > 0, f"{len(self.said)} of {count} after {timeout:g} s: {self.complaints()}"
            assert self.hear(left), f"ended after {len(self.said)} of {count}: {self.complaints()}"

    def next(self) -> Any:  # noqa: ANN401 - any JSON
        """The next thing it says, waited for."""
        self._answered += 1
        self.wait_for(self._answered)
        return self.said[self._answered - 1]

    def tell(self, word: object) -> None:
        """Send a line to the worker."""
        self._commands.write(json.dumps(word).encode() + b"\n")
        self._commands.flush()

    def signal(self, signum: int) -> None:
        self._process.send_signal(signum)

    def kill(self, *, within: float = 0) -> list[Any]:
        """SIGKILL at a random moment of the next `within` seconds, and everything it said until then."""
        threading.Event().wait(random.uniform(0, within))
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(DEADLINE)
        while self.hear():
            pass
        return self.said

    def end(self) -> list[Any]:
        """Wait for its own end, which must be a clean one."""
        while self.hear():
            pass
        assert self._process.wait(DEADLINE) == 0, self.complaints()
        return self.said

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def complaints(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace")
