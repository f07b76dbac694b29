"""`RecallWorker`: starts the worker process when it is needed, asks it, and goes on without it.

Read `worker.py` first. One daemon thread reads the worker's answers; it lives as long as the worker. A
question that is not answered in time gets its fallback: full text, searched in this process. A worker that
died is started again after a growing delay, and one that does not answer at all is killed.
"""

import atexit
import base64
import json
import logging
import os
import pickle
import queue
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from typing import IO, Any, cast

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreClosed

logger = logging.getLogger(__name__)

BOOT = (
    "import json, sys; spec = json.loads(sys.stdin.buffer.readline()); sys.path[:] = spec['path'];"
    " from holdfast.providers.local.worker import main; main(spec)"
)
MAX_ASKED = 64
# Less than a pipe holds, so that a worker that reads is never taken for one that does not.
BATCH_BYTES = 16_384
# The worker answers by the deadline; what it sends is given this long to arrive.
GRACE_SECONDS = 0.05
# So many late questions are answered here at a time; it costs this process some milliseconds each.
MAX_FALLBACKS = 4
UNRESPONSIVE_SECONDS = 10.0
START_SECONDS = 60.0
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1.0, 60.0
CLOSE_SECONDS = 2.0
ERROR_BYTES = 4000

LOADING = "the embedding model is being loaded"
SILENT = "the memory's worker did not answer in time"
BUSY = "too many questions came at once"
ENDED = "the memory's worker has ended"

Fallback = Callable[[str, bool], Any]
"""Makes an answer without the worker; it gets the reason, and whether there is time to search here."""


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


@dataclass(frozen=True, slots=True)
class _Question:
    answer: "Future[Any]"
    read: Callable[[dict[str, Any]], Any]
    fallback: Fallback
    asked: float
    gives_up: float


class WorkerProcess:
    """A worker that was started."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very package
                [sys.executable, "-I", "-c", BOOT],
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

    def send(self, line: bytes) -> bool:
        """Send a line at once. A worker that does not read is killed; False when it is gone."""
        try:
            if self._in.write(line) == len(line):
                return True
        except (OSError, ValueError):
            pass
        self.kill()
        return False

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


class RecallWorker:
    """The worker of one memory. Thread-safe; no worker runs until `start`, `wake` or `ask` is called."""

    def __init__(self, spec: WorkerSpec, clock: Clock) -> None:
        self._spec = spec
        self._clock = clock
        self._process_id = os.getpid()
        self._changed = threading.Condition(threading.Lock())  # guards the fields below
        self._process: WorkerProcess | None = None
        self._thread: threading.Thread | None = None
        self._is_ready = False
        self._asked: dict[int, _Question] = {}
        self._numbers = 0
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._heard = 0.0
        self._silent_since: float | None = None
        self._failures = 0
        self._not_before = 0.0
        self._problem = ""
        self._closed = False

    @property
    def state(self) -> str:
        """One line for people."""
        with self._changed:
            if self._process is None:
                return f"its worker ended ({self._problem})" if self._problem else "its worker is not running"
            if not self._is_ready:
                return "its worker is starting"
            return f"its worker is process {self._process.pid}" + (
                ", which does not answer" if self._silent_since is not None else ""
            )

    @property
    def pid(self) -> int | None:
        with self._changed:
            return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the worker if it is not running."""
        with self._changed:
            self._ensure_started()

    def await_ready(self, seconds: float) -> None:
        """Start the worker if need be, and wait until it can be asked, or has failed."""
        with self._changed:
            self._ensure_started()
            self._changed.wait_for(lambda: self._is_ready or self._thread is None, seconds)

    def wake(self) -> None:
        """There are passages without vectors."""
        with self._changed:
            self._ensure_started()
            if self._process is not None and self._is_ready and self._silent_since is None:
                self._process.send(b'{"build":true}\n')

    def ask(
        self,
        request: dict[str, Any],
        seconds: float,
        read: Callable[[dict[str, Any]], Any],
        fallback: Fallback,
    ) -> "Future[Any]":
        """Send a request; `read` makes the answer of the worker's. Returns at once.

        When the worker is not there, `fallback` is called on this thread.
        """
        answer: Future[Any] = Future()
        now = self._clock.monotonic()
        with self._changed:
            if self._closed:
                raise StoreClosed(self._spec.file)
            self._ensure_started()
            problem = self._hindrance()
            if not problem:
                self._numbers += 1
                number = self._numbers
                self._asked[number] = _Question(answer, read, fallback, now, now + seconds + GRACE_SECONDS)
                times = {"asked": now, "deadline": now + seconds}
                self._lines.put(json.dumps({"id": number, **times, **request}).encode() + b"\n")
        if problem:
            _resolve(answer, lambda: fallback(problem, problem != BUSY))
        return answer

    def close(self) -> None:
        """End the worker. May be called again."""
        with self._changed:
            self._closed = True
            process, thread = self._process, self._thread
        if os.getpid() != self._process_id:
            return
        atexit.unregister(self.close)
        if process is not None and thread is not None:
            process.stop()
            thread.join(CLOSE_SECONDS)
            if thread.is_alive():
                process.kill()
                thread.join(CLOSE_SECONDS)

    def _hindrance(self) -> str:
        """Why a question can't be sent now. Called with the lock."""
        if self._process is None:
            return self._problem or ENDED
        if not self._is_ready:
            return LOADING
        if self._silent_since is not None:
            return SILENT
        return BUSY if len(self._asked) >= MAX_ASKED else ""

    def _ensure_started(self) -> None:
        """Start the worker unless it runs, or failed just now. Called with the lock."""
        if self._closed or self._thread is not None or os.getpid() != self._process_id:
            return
        if self._clock.monotonic() < self._not_before:
            return
        atexit.register(self.close)
        self._thread = threading.Thread(target=self._serve, name="local-memory-worker", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        problem = ""
        try:
            process = WorkerProcess(self._spec)
            lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
            sender = threading.Thread(
                target=_send_lines, args=(process, lines), name="local-memory-questions", daemon=True
            )
            sender.start()
            with self._changed:
                self._process, self._lines = process, lines
                if self._closed:
                    process.stop()
            problem = self._read_answers(process)
            lines.put(None)
            sender.join()
            problem = process.end() or problem
        except Exception as failure:
            logger.exception("memory.worker_failed")
            problem = f"{type(failure).__name__}: {failure}"
        with self._changed:
            self._process = self._thread = None
            self._is_ready = False
            self._changed.notify_all()
            self._silent_since = None
            self._problem = "" if self._closed else problem
            lost, self._asked = list(self._asked.values()), {}
            if self._problem:
                delay = min(FIRST_DELAY_SECONDS * 2**self._failures, LONGEST_DELAY_SECONDS)
                self._failures += 1
                self._not_before = self._clock.monotonic() + delay
                logger.warning("memory.worker_ended", extra={"problem": problem, "again_in": delay})
        self._fall_back(lost, ENDED)

    def _read_answers(self, process: WorkerProcess) -> str:
        """Read until the worker has ended; why it had to be ended, if so."""
        started = self._clock.monotonic()
        while True:
            lines = process.receive(self._patience())
            if lines is None:
                return ""
            for line in lines:
                if "failed" in line and "id" not in line:
                    return str(line["failed"])
                self._take(line)
            now = self._clock.monotonic()
            self._give_up(now)
            with self._changed:
                silent = self._silent_since
                is_starting = not self._is_ready
            if is_starting and now - started > START_SECONDS:
                process.kill()
                return "it did not start in time"
            if silent is not None and now - silent > UNRESPONSIVE_SECONDS:
                process.kill()
                return "it did not answer any more"

    def _patience(self) -> float:
        """Seconds until something has to be given up."""
        with self._changed:
            if self._asked:
                return min(each.gives_up for each in self._asked.values()) - self._clock.monotonic()
            return 1.0 if self._silent_since is not None or not self._is_ready else 3600.0

    def _take(self, line: dict[str, Any]) -> None:
        with self._changed:
            self._silent_since = None
            self._heard = self._clock.monotonic()
            if "ready" in line:
                self._is_ready = True
                self._changed.notify_all()
                return
            self._failures = 0
            self._problem = ""
            question = self._asked.pop(line["id"], None)
        if question is None:
            return  # it was given up
        if "failed" in line:
            _resolve(question.answer, lambda: question.fallback(line["failed"], True))
        elif "late" in line:
            _resolve(question.answer, lambda: question.fallback(BUSY, False))
        else:
            _resolve(question.answer, lambda: question.read(line))

    def _give_up(self, now: float) -> None:
        with self._changed:
            late = [number for number, each in self._asked.items() if each.gives_up <= now]
            questions = [self._asked.pop(number) for number in late]
            # A worker that answers others meanwhile is only busy.
            is_silent = bool(questions) and self._heard < questions[0].asked
            if is_silent and self._silent_since is None:
                self._silent_since = now
        self._fall_back(questions, SILENT if is_silent else BUSY)

    def _fall_back(self, questions: list[_Question], why: str) -> None:
        for number, question in enumerate(questions):
            make = partial(question.fallback, why, number < MAX_FALLBACKS)
            _resolve(question.answer, make)


def _send_lines(process: WorkerProcess, lines: "queue.SimpleQueue[bytes | None]") -> None:
    """Send questions, those that came together at once, until None comes or the worker is gone.

    A thread that asks makes no system call, after which it would wait for a busy interpreter.
    """
    while (line := lines.get()) is not None:
        batch = bytearray(line)
        while len(batch) < BATCH_BYTES and not lines.empty():
            if (line := lines.get()) is None:
                return
            batch += line
        if not process.send(bytes(batch)):
            return
        process.interrupt_wait()  # the reader looks at the new deadlines


def _resolve(answer: "Future[Any]", make: Callable[[], Any]) -> None:
    try:
        answer.set_result(make())
    except BaseException as error:  # noqa: BLE001 - raised to whoever waits for the answer
        answer.set_exception(error)
