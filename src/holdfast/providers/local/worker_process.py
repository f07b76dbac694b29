"""`WorkerProcess`: a worker that was started, its pipes, and its end. `worker_client.py` owns it.

A worker that does not read what it is sent within two seconds is killed.
"""

import base64
import json
import os
import pickle
import select
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from typing import IO, Any, cast

from holdfast.process import with_original_limit

BOOT = (
    "import json, sys; spec = json.loads(sys.stdin.buffer.readline()); sys.path[:] = spec['path'];"
    " from holdfast.providers.local.worker import main; main(spec)"
)
CLOSE_SECONDS = 2.0
WRITE_SECONDS = 2.0
ERROR_BYTES = 4000


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What the worker needs to serve a memory."""

    file: str
    token_budget: int
    turns_in_context: int
    zone: tzinfo | None
    idle_seconds: float
    has_facts: bool = False

    def line(self) -> bytes:
        spec = {
            "path": sys.path,
            "file": os.path.abspath(self.file),  # noqa: PTH100 - links stay as they are
            "token_budget": self.token_budget,
            "turns_in_context": self.turns_in_context,
            "zone": base64.b64encode(pickle.dumps(self.zone)).decode(),
            "idle_seconds": self.idle_seconds,
            "has_facts": self.has_facts,
            "parent": os.getpid(),
        }
        return json.dumps(spec).encode() + b"\n"


class WorkerProcess:
    """A worker that was started."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very package
                with_original_limit([sys.executable, "-I", "-c", BOOT]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                # Ctrl-C in the terminal goes only to the program. It stays in the program's session, so that
                # its priority counts beside the program's.
                process_group=0,
            )
        except BaseException:
            self._errors.close()
            raise
        self._in = cast(IO[bytes], self._process.stdin)
        self._out = cast(IO[bytes], self._process.stdout)
        os.set_blocking(self._in.fileno(), False)
        self._waiter = select.poll()
        self._waiter.register(self._out, select.POLLIN)
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._waker, False)
        self._waiter.register(self._woken, select.POLLIN)
        self._read = bytearray()
        self.pid = self._process.pid
        self.send(spec.line())

    def send(self, lines: bytes) -> bool:
        """Send lines. A worker that does not read them is killed; False when it is gone."""
        left = memoryview(lines)
        writable = select.poll()
        try:
            writable.register(self._in, select.POLLOUT)
            while left and writable.poll(WRITE_SECONDS * 1000):
                left = left[self._in.write(left) or 0 :]
        except (OSError, ValueError):
            pass  # it has ended
        if left:
            self.kill()
        return not left

    def receive(self, seconds: float) -> list[dict[str, Any]] | None:
        """The lines that have come, after a wait if need be; None when the worker has ended."""
        ready = {descriptor for descriptor, _ in self._waiter.poll(max(0.0, seconds) * 1000)}
        if self._woken in ready:
            os.read(self._woken, 4096)
        if self._out.fileno() in ready:
            data = os.read(self._out.fileno(), 1 << 16)
            if not data:
                return None
            self._read += data
        *lines, rest = self._read.split(b"\n")
        self._read = bytearray(rest)
        return [json.loads(line) for line in lines]

    def interrupt_wait(self) -> None:
        """Let `receive` return, so that its caller looks at the time again. Any thread may call this."""
        with suppress(BlockingIOError):  # the pipe is full, so it returns anyway
            os.write(self._waker, b"!")

    def stop(self) -> None:
        """The worker ends when its input does. Any thread may call this."""
        with suppress(OSError):
            self._in.close()

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> str:
        """Make sure that it has ended; how, and its last complaint. Empty when it ended by itself."""
        self.stop()
        try:
            code = self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._out.close()
        os.close(self._woken)
        os.close(self._waker)
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - ERROR_BYTES))
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        if code == 0:
            return ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{how}: {lines[-1]}" if lines else how
