"""`WorkerHandle`: starts a worker process, exchanges lines with it, and ends it. Read `worker.py` first.

Only the thread that serves requests may call its methods, except `kill`.
"""

import json
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from holdfast.process import with_original_limit

SCRIPT = Path(__file__).with_name("worker.py")
STDERR_TAIL_BYTES = 8000
# Each line of the runtime's log begins with a time, a level and a source; one of them has the reason.
NOT_LOADED = re.compile(r"error loading model: (.+)")
OPENING = re.compile(r"^[\d.]+ [A-Z] (\w+\s+\w+: )?")


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """The file to load, and the parameters of the runtime."""

    file: Path
    context: int
    threads: int
    batch: int = 128


@dataclass(frozen=True, slots=True)
class WorkerExit:
    """How a worker ended, and the last line of its runtime's log."""

    how: str
    detail: str

    def __str__(self) -> str:
        return f"{self.how}: {self.detail}" if self.detail else self.how


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The worker has ended and sends no more lines."""


class Wakeup:
    """Wakes the thread that waits for a worker's lines. Any thread may call `wake`; it never blocks."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)

    def wake(self) -> None:
        with suppress(BlockingIOError):  # the pipe is full, so the thread will wake anyway
            os.write(self._writer, b"!")

    def clear(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.reader, 4096)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


class WorkerHandle:
    """A worker process that was started with `spec`."""

    def __init__(self, spec: RuntimeSpec, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        # A private folder for a socket, whose path must be short. The worker removes it after loading.
        self._folder = tempfile.mkdtemp(prefix="holdfast-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self._read = bytearray()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very package
                with_original_limit([sys.executable, "-I", str(SCRIPT)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                # Ctrl-C in the terminal goes only to the program, which then ends the worker.
                start_new_session=True,
            )
        except BaseException:
            self._clean_up()
            raise
        self._in = cast(IO[bytes], self._process.stdin)
        self._out = cast(IO[bytes], self._process.stdout)
        self._waiter = select.poll()
        self._waiter.register(self._out, select.POLLIN)
        self._waiter.register(wakeup.reader, select.POLLIN)
        self.send(
            {
                "path": sys.path,
                "file": str(spec.file),
                "context": spec.context,
                "threads": spec.threads,
                "batch": spec.batch,
                "folder": self._folder,
            }
        )

    def send(self, message: dict[str, Any]) -> None:
        """Send a line. If the worker has ended, `receive` reports it."""
        line = memoryview(json.dumps(message).encode() + b"\n")
        with suppress(BrokenPipeError):
            while line:
                line = line[self._in.write(line) :]

    def receive(self, timeout: float | None) -> dict[str, Any] | WorkerGone | None:
        """The next line; None when the thread was woken or the time ran out before it."""
        while (end := self._read.find(b"\n")) < 0:
            ready = {fd for fd, _ in self._waiter.poll(None if timeout is None else max(0.0, timeout) * 1000)}
            if self._out.fileno() in ready:
                data = os.read(self._out.fileno(), 1 << 16)
                if not data:
                    return WorkerGone()
                self._read += data
            else:
                self._wakeup.clear()
                return None
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def kill(self) -> None:
        """Kill the process at once. Any thread may call it."""
        self._process.kill()

    def end(self) -> WorkerExit:
        """Make sure that the process has ended, clean up, and return how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._in.close()
        self._out.close()
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - STDERR_TAIL_BYTES))
        detail = _failure_line(self._errors.read().decode(errors="replace"))
        self._clean_up()
        return WorkerExit(f"signal {-code}" if code < 0 else f"exit code {code}", detail)

    def _clean_up(self) -> None:
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _failure_line(errors: str) -> str:
    if reasons := NOT_LOADED.findall(errors):
        return str(reasons[-1]).strip()
    lines = errors.strip().splitlines()
    return OPENING.sub("", lines[-1]) if lines else ""
