"""Holds one worker process: starts it, exchanges lines with it, ends it. Read `worker.py` first.

Everything but `kill` is called by one thread, the one that serves requests.
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

SCRIPT = Path(__file__).with_name("worker.py")
LAST_WORDS = 8000
# The runtime's lines open with a time, a level and a place; its reason for not loading stands among others.
NOT_LOADED = re.compile(r"error loading model: (.+)")
OPENING = re.compile(r"^[\d.]+ [A-Z] (\w+\s+\w+: )?")


@dataclass(frozen=True, slots=True)
class RuntimeSpec:
    """What to load, and with what."""

    file: Path
    context: int
    threads: int
    batch: int = 128


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ended, and the last that its runtime said of it."""

    how: str
    said: str

    def __str__(self) -> str:
        return f"{self.how}: {self.said}" if self.said else self.how


@dataclass(frozen=True, slots=True)
class Gone:
    """The worker ended; nothing more comes."""


class Bell:
    """Wakes the thread that waits for a worker's lines; rung from any thread, never blocks."""

    def __init__(self) -> None:
        self.reader, self._writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(self._writer, False)

    def ring(self) -> None:
        with suppress(BlockingIOError):  # rung often enough already
            os.write(self._writer, b"!")

    def hush(self) -> None:
        with suppress(BlockingIOError):
            os.read(self.reader, 4096)

    def close(self) -> None:
        os.close(self.reader)
        os.close(self._writer)


class WorkerHandle:
    """A worker process that was started with `spec`."""

    def __init__(self, spec: RuntimeSpec, bell: Bell) -> None:
        self._bell = bell
        # A private folder for a socket, whose path must be short; the worker removes it once it has loaded.
        self._folder = tempfile.mkdtemp(prefix="holdfast-")
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self._read = bytearray()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very package
                [sys.executable, "-I", str(SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                # Ctrl-C in the terminal is for the program, which ends the worker by itself.
                start_new_session=True,
            )
        except BaseException:
            self._clean_up()
            raise
        self._in = cast(IO[bytes], self._process.stdin)
        self._out = cast(IO[bytes], self._process.stdout)
        self._waiter = select.poll()
        self._waiter.register(self._out, select.POLLIN)
        self._waiter.register(bell.reader, select.POLLIN)
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
        """Hand a line over; that the worker is gone shows when its answer is awaited."""
        line = memoryview(json.dumps(message).encode() + b"\n")
        with suppress(BrokenPipeError):
            while line:
                line = line[self._in.write(line) :]

    def receive(self, timeout: float | None) -> dict[str, Any] | Gone | None:
        """The next line; None when the bell rang or the time ran out before it."""
        while (end := self._read.find(b"\n")) < 0:
            ready = {fd for fd, _ in self._waiter.poll(None if timeout is None else max(0.0, timeout) * 1000)}
            if self._out.fileno() in ready:
                data = os.read(self._out.fileno(), 1 << 16)
                if not data:
                    return Gone()
                self._read += data
            else:
                self._bell.hush()
                return None
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        message: dict[str, Any] = json.loads(line)
        return message

    def kill(self) -> None:
        """End the process at once. May be called from any thread."""
        self._process.kill()

    def end(self) -> Ending:
        """Make sure that the process is gone, clean up after it, and say how it ended."""
        self._process.kill()
        code = self._process.wait()
        self._in.close()
        self._out.close()
        self._errors.seek(max(0, os.fstat(self._errors.fileno()).st_size - LAST_WORDS))
        said = _last_words(self._errors.read().decode(errors="replace"))
        self._clean_up()
        return Ending(f"signal {-code}" if code < 0 else f"exit code {code}", said)

    def _clean_up(self) -> None:
        self._errors.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _last_words(errors: str) -> str:
    if reasons := NOT_LOADED.findall(errors):
        return str(reasons[-1]).strip()
    lines = errors.strip().splitlines()
    return OPENING.sub("", lines[-1]) if lines else ""
