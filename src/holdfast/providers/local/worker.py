"""The process that holds the embedding model: it answers recalls, and makes vectors when nobody asks.

`worker_client.py` starts it and exchanges lines of JSON with it. It opens the memory's file itself. Standard
input has the specification, then requests; it ends with the program, and then this process ends too.
"""

import base64
import ctypes
import json
import logging
import os
import pickle
import queue
import sys
import threading
from contextlib import suppress
from dataclasses import asdict
from typing import Any, BinaryIO

from holdfast.core.clock import SystemClock
from holdfast.providers.local.embedding import MiniLM
from holdfast.providers.local.provider import LocalMemory
from holdfast.providers.local.question_embedder import QuestionEmbedder

logger = logging.getLogger(__name__)

TEXT_ALONE = "by full text alone: the embedding model was busy"
QUESTION_THREADS = 4
# While more questions than this wait, they are answered by full text alone.
CROWD = 8
# What is left to do once a question has its vector.
AFTER_EMBEDDING_SECONDS = 0.03
LOOK_SECONDS = 2.0
# Turns come first: a recall that is late is left out.
LOWER_PRIORITY = 10
LOWEST_PRIORITY = 19
M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
MMAP_THRESHOLD_BYTES = 1 << 20


class Worker:
    """Serves one memory."""

    def __init__(self, spec: dict[str, Any], responses: BinaryIO) -> None:
        self._clock = SystemClock()
        self._embedder = QuestionEmbedder(MiniLM(), self._clock)
        self._memory = LocalMemory(
            spec["file"],
            clock=self._clock,
            embedder=self._embedder,
            token_budget=spec["token_budget"],
            turns_in_context=spec["turns_in_context"],
            zone=pickle.loads(base64.b64decode(spec["zone"])),  # noqa: S301 - from the program itself
        )
        if spec["has_facts"]:
            self._memory.use_facts()
        self._parent: int = spec["parent"]
        self._idle_seconds: float = spec["idle_seconds"]
        self._responses = responses
        self._writing = threading.Lock()  # guards _responses
        self._questions: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._to_build = threading.Event()
        self._used = self._clock.monotonic()

    def load(self) -> None:
        """Open the file and load the model; raises what goes wrong."""
        self._memory.warm_up()
        for number in range(QUESTION_THREADS):
            threading.Thread(target=self._answer_all, name=f"questions-{number}", daemon=True).start()
        threading.Thread(target=self._embedder.run, name="embedding", daemon=True).start()
        threading.Thread(target=self._build, name="vectors", daemon=True).start()
        self._to_build.set()
        self.put({"ready": True})

    def read(self, lines: BinaryIO) -> None:
        """Take requests until the program ends."""
        for line in lines:
            self._used = self._clock.monotonic()
            request = json.loads(line)
            if "build" in request:
                self._to_build.set()
            else:
                self._questions.put(request)

    def put(self, message: dict[str, Any]) -> None:
        with self._writing, suppress(BrokenPipeError):
            self._responses.write(json.dumps(message).encode() + b"\n")
            self._responses.flush()

    def _answer_all(self) -> None:
        while True:
            request = self._questions.get()
            try:
                answer = self._answered(request)
            except Exception as failure:
                logger.exception("memory.recall_failed")
                answer = {"failed": f"{type(failure).__name__}: {failure}"}
            self.put({"id": request["id"], **answer})

    def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        deadline = request["deadline"]
        if self._clock.monotonic() > deadline:
            return {"late": True}
        if "texts" in request:
            # Outside of a question: the turns' questions come first.
            return {"vectors": self._embedder.embed(request["texts"]).tolist()}
        is_crowded = self._questions.qsize() > CROWD
        vector_by = 0.0 if is_crowded else deadline - AFTER_EMBEDDING_SECONDS
        if "vector_seconds" in request:
            vector_by = min(vector_by, request["asked"] + request["vector_seconds"])
        with self._embedder.question(vector_by) as asked:
            if "limit" in request:
                found = self._memory.search(
                    request["query"],
                    request["limit"],
                    session_id=request["session"],
                    mode=request["mode"],
                    scope=request["scope"],
                )
                return {"found": [asdict(each) for each in found]}
            block = self._memory.recall(
                request["query"], session_id=request["session"], scope=request["scope"]
            )
            note = TEXT_ALONE if asked.is_late else ""
            return {"text": block.text, "lines": block.passages, "note": note}

    def _build(self) -> None:
        """Make missing vectors; end the process when it has been idle for long, or is orphaned."""
        with suppress(AttributeError, OSError):  # each thread of Linux has a priority of its own
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), LOWEST_PRIORITY)
        while True:
            if self._to_build.wait(LOOK_SECONDS):
                self._to_build.clear()
                while self._memory.build_vectors():
                    self._used = self._clock.monotonic()
                return_memory()
            if os.getppid() != self._parent:
                os._exit(0)
            if self._clock.monotonic() - self._used > self._idle_seconds:
                os._exit(0)


def limit_memory() -> None:
    """Let glibc give large blocks back at once; other C libraries do as they like."""
    with suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES)
        libc.mallopt(M_ARENA_MAX, 1)


def return_memory() -> None:
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def main(spec: dict[str, Any]) -> None:
    """Load what `spec` says, then serve until the program ends."""
    os.nice(LOWER_PRIORITY)
    limit_memory()
    # Libraries may print to standard output, so lines for the program use a separate descriptor.
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker = Worker(spec, responses)
    threading.Thread(target=_load, args=(worker,), name="loading", daemon=True).start()
    worker.read(sys.stdin.buffer)
    os._exit(0)  # at once, whatever is being computed: the file is safe at any moment


def _load(worker: Worker) -> None:
    try:
        worker.load()
        return_memory()
    except Exception as failure:  # noqa: BLE001 - the program names it
        worker.put({"failed": f"{type(failure).__name__}: {failure}"})
        os._exit(1)
