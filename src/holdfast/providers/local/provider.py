"""The built-in memory: no server, no key, no network. Each turn and each note in one SQLite file.

Turns are stored and embedded on the write lane; recall only embeds the question. Read `recall.py` for how
things are found, `store.py` for how they are kept.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, Literal

from holdfast.core.contract import Clock
from holdfast.core.distribution import install_command
from holdfast.core.errors import StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn, MemoryItem
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.local.embedding import Embedder, MiniLM, missing_packages
from holdfast.providers.local.passages import local_time
from holdfast.providers.local.recall import FoundPassage, HybridRecall, SearchMode
from holdfast.providers.local.recall_block import recall_block
from holdfast.providers.local.store import PassageStore
from holdfast.providers.local.tools import TOOLS
from holdfast.providers.local.vector_builder import VectorBuilder

MAX_FOUND = 20
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
        return f"{kept}; recall by full text and {self.embeddings}{waiting}"


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
        if embedder == "default":
            embedder = None if self._missing else MiniLM()
        self._embedder: Embedder | None = embedder
        self._lock = threading.Lock()  # guards _store, _builder, _recall and _closed
        self._store: PassageStore | None = None
        self._builder: VectorBuilder | None = None
        self._recall: HybridRecall | None = None

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the file and load the vectors and the model, so that the first recall is fast."""
        recall = self._opened()[1]
        recall.warm_up()
        if self._builder is not None:
            self._builder.catch_up()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the turns, each once by its key, then make their vectors; raises when storing failed."""
        store, _ = self._opened()
        self._build_vectors(store.add_turns(turns))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        recall = self._opened()[1]
        found = recall.search(query, MAX_FOUND, session_id=session_id, in_context=self._in_context)
        return recall_block(found, recall.at_positions, budget=self._budget, zone=self._zone)

    def search(
        self, query: str, limit: int = 10, *, session_id: str = "", mode: SearchMode = "hybrid"
    ) -> list[FoundPassage]:
        """The passages and notes of all sessions, best match first."""
        return self._opened()[1].search(query, limit, session_id=session_id, mode=mode)

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
        waiting = 0 if model is None else store.count_without_vector()
        return LocalDescription(self._path, passages, notes, model, tuple(self._missing), waiting)

    def shutdown(self) -> None:
        """Close the file; later calls are refused. May be called again."""
        with self._lock:
            self._closed = True
            store, builder = self._store, self._builder
            self._store = self._recall = self._builder = None
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
                matrix = None
                if self._embedder is not None:
                    from holdfast.providers.local.vectors import VectorMatrix

                    self._store.await_vectors(self._embedder.model)
                    self._builder = VectorBuilder(self._store, self._embedder)
                    matrix = VectorMatrix(self._store.queries, self._embedder.model)
                self._recall = HybridRecall(self._store, self._embedder, matrix)
            return self._store, self._recall

    def _build_vectors(self, fresh: int) -> None:
        builder = self._builder
        if builder is not None:
            builder.build(fresh)


def in_folder(folder: Path, clock: Clock) -> LocalMemory:
    """Create the provider `local` with its usual file."""
    return LocalMemory(folder / "memory.db", clock=clock, turns_in_context=TURNS_IN_CONTEXT)
