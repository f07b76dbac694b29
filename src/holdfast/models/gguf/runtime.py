"""Serves requests to one loaded GGUF file, one at a time, in their order.

A worker process loads the file (`worker.py`). In this process the runtime would hold Python's GIL while it
loads, and would block every lease and every interrupt of the program.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import ModelBusy, ModelFailure, ModelFileInvalid, RequestRejected
from holdfast.models.gguf.worker_handle import RuntimeSpec, Wakeup, WorkerExit, WorkerGone, WorkerHandle

logger = logging.getLogger(__name__)

GRACE = 10.0
"""Seconds for a worker to stop generating.

A slower worker is killed, and a new one is started when needed.
"""
MAX_WAITING = 64


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """The worker ended in the middle of the answer."""

    problem: str


RuntimeEvent = Mapping[str, Any] | ModelFailure | WorkerLost | None
"""A chunk of a streamed chat completion, or the end of the answer: its failure, or None when it is whole."""


@dataclass(eq=False, slots=True)
class Job:
    """One request. With `body` None, the file is only loaded."""

    number: int
    body: Mapping[str, Any] | None
    deliver: Callable[[RuntimeEvent], None]
    cancelled: bool = False
    began: bool = False
    """Whether a chunk of the answer was delivered."""


class Runtime:
    """The queue in front of the worker, and the daemon thread between the two.

    The thread and the worker start with the first request. Not for use in a forked child.
    """

    def __init__(self, spec: RuntimeSpec, name: str, clock: Clock) -> None:
        """`name` is the model's name in errors."""
        self._spec = spec
        self._name = name
        self._clock = clock
        self._process = os.getpid()
        # Guards every field below.
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[Job] = deque()
        self._current: Job | None = None
        self._worker: WorkerHandle | None = None
        self._wakeup: Wakeup | None = None
        self._thread: threading.Thread | None = None
        self._numbers = 0
        self._closed = False
        self._on_closed: list[Callable[[], None]] = []

    def submit(self, body: Mapping[str, Any] | None, deliver: Callable[[RuntimeEvent], None]) -> Job:
        """Queue a request and return at once; the serving thread calls `deliver` with each event.

        The last event is the first one that is not a chunk.
        """
        with self._changed:
            self._numbers += 1
            job = Job(self._numbers, body, deliver)
            refused = self._refusal()
            if refused is None:
                self._ensure_thread()
                self._waiting.append(job)
                self._changed.notify_all()
        if refused is not None:
            deliver(refused)
        return job

    def cancel(self, job: Job) -> None:
        """Cancel the rest of `job`. Never blocks, and does nothing when the job has ended."""
        if os.getpid() != self._process:
            return
        with self._changed:
            job.cancelled = True
            if job in self._waiting:
                self._waiting.remove(job)
            elif job is self._current and self._wakeup is not None:
                self._wakeup.wake()

    def close(self, closed: Callable[[], None]) -> None:
        """Kill the worker at once and refuse new requests; `closed` is called when the worker has ended."""
        with self._changed:
            self._closed = True
            if self._thread is not None and os.getpid() == self._process:
                self._on_closed.append(closed)
                if self._worker is not None:
                    self._worker.kill()
                self._changed.notify_all()
                return
        closed()

    def _refusal(self) -> ModelFailure | None:
        if self._closed or os.getpid() != self._process:
            return self._closed_failure()
        if len(self._waiting) >= MAX_WAITING:
            return ModelBusy(self._name, "too many requests wait for it")
        return None

    def _closed_failure(self) -> ModelFailure:
        return RequestRejected(self._name, "it is closed")

    def _ensure_thread(self) -> None:
        if self._thread is not None:
            return
        wakeup = Wakeup()
        thread = threading.Thread(
            target=self._serve, args=(wakeup,), name=f"gguf-{self._spec.file.stem}", daemon=True
        )
        thread.start()  # waits for the lock that is held here
        self._wakeup, self._thread = wakeup, thread

    def _serve(self, wakeup: Wakeup) -> None:
        while (job := self._next_job()) is not None:
            last: RuntimeEvent
            try:
                last = self._answer(job, wakeup)
            except Exception as failure:
                logger.exception("gguf.serving_failed", extra={"file": str(self._spec.file)})
                self._drop_worker()
                last = WorkerLost(repr(failure))
            with self._changed:
                cut_off = self._closed and last is not None
            _deliver(job, self._closed_failure() if cut_off else last)
        self._drop_worker()
        with self._changed:
            left, self._on_closed = self._on_closed, []
            waiting = list(self._waiting)
            self._waiting.clear()
            self._thread = self._wakeup = None
        wakeup.close()
        for each in waiting:
            _deliver(each, self._closed_failure())
        for callback in left:
            callback()

    def _next_job(self) -> Job | None:
        with self._changed:
            self._current = None
            self._changed.wait_for(lambda: bool(self._waiting) or self._closed)
            if self._closed:
                return None
            self._current = self._waiting.popleft()
            return self._current

    def _answer(self, job: Job, wakeup: Wakeup) -> RuntimeEvent:
        reused = self._worker is not None
        last = self._answer_once(job, wakeup)
        if reused and isinstance(last, WorkerLost) and not job.began and not job.cancelled:
            # The worker may have died while it was idle, which is noticed only now.
            logger.warning("gguf.worker_gone", extra={"file": str(self._spec.file), "how": last.problem})
            last = self._answer_once(job, wakeup)
        return last

    def _answer_once(self, job: Job, wakeup: Wakeup) -> RuntimeEvent:
        worker = self._worker
        if worker is None:
            worker = WorkerHandle(self._spec, wakeup)
            with self._changed:
                self._worker = worker
                if self._closed:
                    return self._closed_failure()
            problem = self._load(worker)
            if problem is not None:
                return ModelFileInvalid(str(self._spec.file), problem)
        if job.body is None or job.cancelled:
            return None
        worker.send({"id": job.number, "body": job.body})
        return self._relay(worker, job)

    def _load(self, worker: WorkerHandle) -> str | None:
        """Wait until the file is loaded, even when the request is cancelled.

        The next request needs the file.
        """
        while True:
            match worker.receive(None):
                case {"ready": True}:
                    return None
                case {"failed": str(problem)}:
                    ending = self._drop_worker()
                    return f"the runtime can't load it ({(ending and ending.detail) or problem})"
                case WorkerGone():
                    return f"the runtime ended while it was loading ({self._drop_worker()})"
                case _:
                    pass  # woken without a line

    def _relay(self, worker: WorkerHandle, job: Job) -> RuntimeEvent:
        last: ModelFailure | None = None
        deadline: float | None = None
        while True:
            if job.cancelled and deadline is None:
                worker.send({"cancel": job.number})
                deadline = self._clock.monotonic() + GRACE
            left = None if deadline is None else deadline - self._clock.monotonic()
            if left is not None and left <= 0:
                logger.warning("gguf.worker_stuck", extra={"file": str(self._spec.file)})
                self._drop_worker()
                return None
            match worker.receive(left):
                case {"chunk": dict(data)}:
                    job.began = True
                    _deliver(job, data)
                case {"refused": str(problem)}:
                    last = RequestRejected(self._name, problem)
                case {"end": True}:
                    return last
                case WorkerGone():
                    return WorkerLost(f"the runtime ended ({self._drop_worker()})")
                case _:
                    pass  # woken without a line, or the time is over

    def _drop_worker(self) -> WorkerExit | None:
        with self._changed:
            worker, self._worker = self._worker, None
        return worker.end() if worker is not None else None


def _deliver(job: Job, event: RuntimeEvent) -> None:
    if job.cancelled:
        return
    try:
        job.deliver(event)
    except RuntimeError:
        job.cancelled = True  # its event loop is closed, so nobody waits for it
