"""`RecallWorker`: starts the worker process when it is needed, asks it, and goes on without it.

Read `worker.py` first. One daemon thread sends lines to the worker, one reads its answers; they live as long
as it does. A question that is not answered in time gets its fallback: full text, searched in this process.
A worker that died is started again after a growing delay, and one that does not answer at all is killed.
"""

import atexit
import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreClosed
from holdfast.providers.local.worker_process import CLOSE_SECONDS, WorkerProcess, WorkerSpec

logger = logging.getLogger(__name__)

MAX_ASKED = 64
BATCH_BYTES = 16_384
# The worker answers by the deadline; what it sends is given this long to arrive.
GRACE_SECONDS = 0.05
# So many late questions are answered here at a time; it costs this process some milliseconds each.
MAX_FALLBACKS = 4
UNRESPONSIVE_SECONDS = 10.0
START_SECONDS = 60.0
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 1.0, 60.0

LOADING = "the embedding model is being loaded"
SILENT = "the memory's worker did not answer in time"
BUSY = "too many questions came at once"
ENDED = "the memory's worker has ended"

Fallback = Callable[[str, bool], Any]
"""Makes an answer without the worker; it gets the reason, and whether there is time to search here."""


@dataclass(frozen=True, slots=True)
class _Question:
    answer: "Future[Any]"
    read: Callable[[dict[str, Any]], Any]
    fallback: Fallback
    asked: float
    gives_up: float


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
                self._lines.put(b'{"build":true}\n')

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
            try:
                problem = self._use(process)
            finally:
                # Also after a line that can't be read: no process and no pipe is left behind.
                ended = process.end()
            problem = ended or problem
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

    def _use(self, process: WorkerProcess) -> str:
        """Send and read until the worker has ended; why it had to be ended, if so."""
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        sender = threading.Thread(
            target=_send_lines, args=(process, lines), name="local-memory-questions", daemon=True
        )
        sender.start()
        try:
            with self._changed:
                self._process, self._lines = process, lines
                if self._closed:
                    process.stop()
            return self._read_answers(process)
        finally:
            lines.put(None)
            sender.join()

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
