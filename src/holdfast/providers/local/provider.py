"""The built-in memory: no server, no key, no network. Each turn and each note in one SQLite file.

Turns are stored on the write lane. Recalls and vectors are the work of a process of its own (`worker.py`), so
that this one needs neither numpy nor a model; while that process is not there, recall is by full text alone,
in this one. Read `recall.py` for how things are found, `store.py` for how they are kept.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Literal

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn, MemoryItem, RecallAnswer
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.local.embedding import Embedder, MiniLM, missing_packages
from holdfast.providers.local.passages import local_time
from holdfast.providers.local.recall import (
    MAX_QUERY_LENGTH,
    FoundPassage,
    HybridRecall,
    SearchMode,
    found_passage,
)
from holdfast.providers.local.recall_block import recall_block
from holdfast.providers.local.store import PassageStore
from holdfast.providers.local.tools import TOOLS
from holdfast.providers.local.vector_builder import VectorBuilder
from holdfast.providers.local.worker_client import RecallWorker, WorkerSpec

MAX_FOUND = 20
RECALL_SECONDS = 0.15
"""A turn waits so long for its recall; what is not found by then is left out."""
SEARCH_SECONDS = 5.0
"""A person, or the agent by its tool, waits longer for a search."""
START_SECONDS = 10.0
IDLE_SECONDS = 120.0
"""A worker that nobody asked for so long ends."""
TOKEN_BUDGET = 1500
# This many newest turns of a session are taken to be in the conversation that the agent sends anyway.
TURNS_IN_CONTEXT = 20


@dataclass(frozen=True, slots=True)
class LocalDescription:
    """The state of the memory, for `doctor`."""

    path: str
    passages: int
    notes: int
    embeddings: str | None
    """The embedding model; None when recall works on full text alone."""
    missing_packages: tuple[str, ...]
    without_vector: int
    worker: str = ""
    """The state of the process that recalls; empty when there is none."""

    @property
    def is_limited(self) -> bool:
        return self.embeddings is None

    def __str__(self) -> str:
        kept = f"{self.path}: {self.passages} passages and {self.notes} notes"
        if self.embeddings is None:
            lacking = f" ({', '.join(self.missing_packages)} not installed)" if self.missing_packages else ""
            better = install_command("embeddings")
            return f"{kept}; recall by full text alone{lacking}. For better recall run: {better}"
        waiting = f"; {self.without_vector} wait for their vectors" if self.without_vector else ""
        worker = f"; {self.worker}" if self.worker else ""
        return f"{kept}; recall by full text and {self.embeddings}{waiting}{worker}"


class LocalMemory(BatchProvider):
    """Memory on this machine. Thread-safe; several processes may share one file.

    A write is on disk when its call returns; at exit only the thread that makes missing vectors is stopped.
    A forked child can't use it: SQLite forbids to use the connections of the parent.
    """

    name = "local"
    tools = TOOLS

    def __init__(
        self,
        path: str | Path,
        *,
        clock: Clock,
        embedder: "Embedder | Literal['default'] | None" = "default",
        token_budget: int = TOKEN_BUDGET,
        turns_in_context: int = 0,
        zone: tzinfo | None = None,
    ) -> None:
        """`turns_in_context` newest turns of a session are not recalled for that session itself."""
        self._path = str(path)
        self._clock = clock
        self._zone = zone
        self._budget = token_budget
        self._in_context = turns_in_context
        self._missing = missing_packages()
        self._worker: RecallWorker | None = None
        if embedder == "default":
            embedder = None
            if not self._missing:
                spec = WorkerSpec(self._path, token_budget, turns_in_context, zone, IDLE_SECONDS)
                self._worker = RecallWorker(spec, SystemClock())
        self._embedder: Embedder | None = embedder
        self._lock = threading.Lock()  # guards _store, _builder, _recall and _closed
        self._store: PassageStore | None = None
        self._builder: VectorBuilder | None = None
        self._recall: HybridRecall | None = None

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the file. When there is something to recall, get ready for it, beside this process."""
        store, recall = self._opened()
        if self._worker is None:
            recall.warm_up()
        elif store.read(store.queries.has_passages):
            self._worker.start()
        if self._builder is not None:
            self._builder.catch_up()

    def warm_up(self) -> None:
        """Load the model, so that the first question doesn't wait for it."""
        self._opened()[1].warm_up()

    def build_vectors(self) -> bool:
        """Make the missing vectors of a few passages; False when none is left, or it failed."""
        self._opened()
        return self._builder is not None and self._builder.build_batch()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the turns, each once by its key, then see to their vectors; raises when storing failed."""
        store, _ = self._opened()
        self._build_vectors(store.add_turns(turns))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return self.begin_prefetch(query, session_id=session_id).result().text

    def begin_prefetch(self, query: str, *, session_id: str = "") -> "Future[RecallAnswer]":
        """Recall in the worker; by full text alone, here, while the worker is not there."""
        recall = self._opened()[1]
        if self._worker is not None and recall.has_passages():
            return self._worker.ask(
                {"query": query[:MAX_QUERY_LENGTH], "session": session_id},
                RECALL_SECONDS,
                lambda line: RecallAnswer(line["text"], line["note"]),
                partial(self._without_worker, query, session_id),
            )
        answer: Future[RecallAnswer] = Future()
        answer.set_result(RecallAnswer(self._recalled(query, session_id)))
        return answer

    def search(
        self, query: str, limit: int = 10, *, session_id: str = "", mode: SearchMode = "hybrid"
    ) -> list[FoundPassage]:
        """The passages and notes of all sessions, best match first."""
        recall = self._opened()[1]
        if self._worker is None or mode == "text" or not recall.has_passages():
            return recall.search(query, limit, session_id=session_id, mode=mode)
        self._worker.await_ready(START_SECONDS)
        request = {"query": query[:MAX_QUERY_LENGTH], "session": session_id, "limit": limit, "mode": mode}

        def by_text(_why: str, _has_time: bool) -> list[FoundPassage]:
            return recall.search(query, limit, session_id=session_id, mode="text")

        found: list[FoundPassage] = self._worker.ask(
            request, SEARCH_SECONDS, lambda line: [found_passage(each) for each in line["found"]], by_text
        ).result()
        return found

    def _without_worker(self, query: str, session_id: str, why: str, has_time: bool) -> RecallAnswer:
        if not has_time:
            return RecallAnswer("", f"nothing was recalled: {why}")
        return RecallAnswer(self._recalled(query, session_id), f"by full text alone: {why}")

    def _recalled(self, query: str, session_id: str) -> str:
        recall = self._opened()[1]
        found = recall.search(query, MAX_FOUND, session_id=session_id, in_context=self._in_context)
        return recall_block(found, recall.at_positions, budget=self._budget, zone=self._zone)

    def save_note(self, text: str) -> int:
        """Store a note; returns its id."""
        store, _ = self._opened()
        note = store.add_note(text)
        self._build_vectors(1)
        return note

    def correct_note(self, note_id: int, text: str) -> bool:
        """Change the text of a note; False when it does not exist."""
        store, _ = self._opened()
        changed = store.change_note(note_id, text)
        if changed:
            self._build_vectors(1)
        return changed

    def forget(self, memory_id: int) -> bool:
        """Delete a note, or the turn of a passage, permanently."""
        return self._opened()[0].forget(memory_id)

    def browse(self, query: str, limit: int = 10) -> list[MemoryItem]:
        """The results of a search, as a person sees them."""
        return [
            MemoryItem(
                each.id,
                each.created,
                each.kind,
                each.text,
                each.speaker if each.kind == "turn" else "",
                each.session_id,
                each.turn_id,
            )
            for each in self.search(query, limit)
        ]

    def dated(self, memory: FoundPassage) -> str:
        return local_time(memory.created, self._zone).isoformat(timespec="minutes")

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory. What fits a message is recalled by itself. Use memory_search"
            " to look for more, memory_save for what later conversations should know, and memory_correct or"
            " memory_forget when a note is wrong or the user asks for it."
        )

    def check(self, config: ProviderConfig) -> str:
        return str(self.describe())

    def describe(self) -> LocalDescription:
        """The state of the memory, for `doctor`."""
        store, _ = self._opened()
        passages, notes = store.counts()
        model = None if self._embedder is None else self._embedder.model
        state = ""
        if self._worker is not None:
            model, state = MiniLM.model, self._worker.state
        waiting = 0 if model is None else store.count_without_vector()
        return LocalDescription(self._path, passages, notes, model, tuple(self._missing), waiting, state)

    def shutdown(self) -> None:
        """Close the file; later calls are refused. May be called again."""
        with self._lock:
            self._closed = True
            store, builder = self._store, self._builder
            self._store = self._recall = self._builder = None
        if self._worker is not None:
            self._worker.close()
        if builder is not None:
            builder.close()
        if store is not None:
            store.close()

    def _opened(self) -> tuple[PassageStore, HybridRecall]:
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._store is None or self._recall is None:
                self._store = PassageStore(self._path, clock=self._clock, zone=self._zone)
                index = None
                if self._embedder is not None:
                    from holdfast.providers.local.vectors import VectorIndex

                    self._store.await_vectors(self._embedder.model)
                    index = VectorIndex(self._store, self._embedder.model)
                    self._builder = VectorBuilder(self._store, self._embedder, index)
                self._recall = HybridRecall(self._store, self._embedder, index)
            return self._store, self._recall

    def _build_vectors(self, fresh: int) -> None:
        builder = self._builder
        if builder is not None:
            builder.build(fresh)
        if self._worker is not None and fresh:
            self._worker.wake()


def in_folder(folder: Path, clock: Clock) -> LocalMemory:
    """Create the provider `local` with its usual file."""
    return LocalMemory(folder / "memory.db", clock=clock, turns_in_context=TURNS_IN_CONTEXT)
