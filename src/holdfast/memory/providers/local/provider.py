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
from holdfast.core.errors import StoreClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn, Remembered
from holdfast.memory.providers.batches import BatchProvider
from holdfast.memory.providers.local.block import recall_block
from holdfast.memory.providers.local.embedding import Embedder, MiniLM, missing_packages
from holdfast.memory.providers.local.making_vectors import VectorMaker
from holdfast.memory.providers.local.passages import moment
from holdfast.memory.providers.local.recall import Memory, Recall, Way
from holdfast.memory.providers.local.store import MemoryStore, load_queries
from holdfast.memory.providers.local.tools import TOOLS, run_tool
from holdfast.memory.providers.tool_calls import function_schemas

FOUND_AT_MOST = 20
TOKEN_BUDGET = 1500
# Of a session's own turns, so many are taken to be in the conversation that an agent sends anyway.
TURNS_IN_CONTEXT = 20
# Less than a provider's shutdown may take: a write that waits for another process is tried again by its lane.
PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Description:
    """How the memory stands, for `doctor`."""

    path: str
    passages: int
    notes: int
    embeddings: str | None
    """The embedding model; None when recall works on full text alone."""
    missing_packages: tuple[str, ...]
    without_vector: int

    def __str__(self) -> str:
        kept = f"{self.path}: {self.passages} passages and {self.notes} notes"
        if self.embeddings is None:
            lacking = f" ({', '.join(self.missing_packages)} not installed)" if self.missing_packages else ""
            return (
                f"{kept}; recall by full text alone{lacking}. Install holdfast[embeddings] for better recall."
            )
        waiting = f"; {self.without_vector} wait for their vectors" if self.without_vector else ""
        return f"{kept}; recall by full text and {self.embeddings}{waiting}"


class LocalMemory(BatchProvider):
    """Remembers on this machine. Thread-safe; several processes may share one file.

    A write is on disk when its call returns, so there is nothing to drain at exit but the thread that makes
    missing vectors. A forked child is refused: it has its parent's connections, which SQLite forbids to use.
    """

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
        self._lock = threading.Lock()  # guards _store, _recall, _maker and _closed
        self._store: MemoryStore | None = None
        self._maker: VectorMaker | None = None
        self._recall: Recall | None = None
        self._closed = False

    @property
    def name(self) -> str:
        return "local"

    @property
    def closed(self) -> bool:
        return self._closed

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the file, and read the vectors and the model now rather than in the first recall."""
        recall = self._opened()[1]
        recall.warm_up()
        if self._maker is not None:
            self._maker.catch_up()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the turns, each once by its key; raises when that failed. Then make their vectors."""
        store, _ = self._opened()
        self._make_vectors(store.add_turns(turns))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        recall = self._opened()[1]
        found = recall.search(query, FOUND_AT_MOST, session_id=session_id, in_context=self._in_context)
        return recall_block(found, recall.at, budget=self._budget, zone=self._zone)

    def search(
        self, query: str, limit: int = 10, *, session_id: str = "", way: Way = "hybrid"
    ) -> list[Memory]:
        """The best passages and notes first, from all sessions."""
        return self._opened()[1].search(query, limit, session_id=session_id, way=way)

    def save_note(self, text: str) -> int:
        """Keep a note; returns its id."""
        store, _ = self._opened()
        note = store.add_note(text)
        self._make_vectors(1)
        return note

    def correct_note(self, note_id: int, text: str) -> bool:
        """Give a note another text; False when there is no such note."""
        store, _ = self._opened()
        changed = store.change_note(note_id, text)
        if changed:
            self._make_vectors(1)
        return changed

    def forget(self, memory_id: int) -> bool:
        """Remove a note, or the turn that a found passage belongs to, for good."""
        return self._opened()[0].forget(memory_id)

    def remembered(self, query: str, limit: int = 10) -> list[Remembered]:
        """What a search finds, as people are shown it."""
        return [
            Remembered(
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

    def dated(self, memory: Memory) -> str:
        return moment(memory.created, self._zone).isoformat(timespec="minutes")

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return function_schemas(TOOLS)

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        if tool_name not in TOOLS:
            return super().handle_tool_call(tool_name, args, **kwargs)
        return run_tool(self, tool_name, args)

    def system_prompt_block(self) -> str:
        return (
            "You have a long-term memory. What fits a message is recalled by itself. Use memory_search"
            " to look for more, memory_save for what later conversations should know, and memory_correct or"
            " memory_forget when a note is wrong or the user asks for it."
        )

    def check(self, config: ProviderConfig) -> str:
        return str(self.describe())

    def describe(self) -> Description:
        """How the memory stands, for `doctor`."""
        store, _ = self._opened()
        counts = store.counts()
        model = None if self._embedder is None else self._embedder.model
        waiting = 0 if model is None else store.count_without_vector()
        return Description(self._path, counts.turns, counts.notes, model, tuple(self._missing), waiting)

    def shutdown(self) -> None:
        """Close the file; what comes later is refused. May be called again."""
        with self._lock:
            self._closed = True
            store, maker = self._store, self._maker
            self._store = self._recall = self._maker = None
        if maker is not None:
            maker.close()
        if store is not None:
            store.close()

    def _opened(self) -> tuple[MemoryStore, Recall]:
        with self._lock:
            if self._closed:
                raise StoreClosed(self._path)
            if self._store is None or self._recall is None:
                self._store = MemoryStore(
                    self._path, clock=self._clock, zone=self._zone, patience=PATIENCE_SECONDS
                )
                if self._embedder is not None:
                    self._store.await_vectors(self._embedder.model)
                    self._maker = VectorMaker(self._store, self._embedder)
                self._recall = Recall(self._store, self._embedder, self._new_matrix())
            return self._store, self._recall

    def _make_vectors(self, fresh: int) -> None:
        maker = self._maker
        if maker is not None:
            maker.make(fresh)

    def _new_matrix(self) -> Any:
        if self._embedder is None:
            return None
        from holdfast.memory.providers.local.vectors import VectorMatrix

        return VectorMatrix(load_queries(), self._embedder.model)


def in_folder(folder: Path, clock: Clock) -> LocalMemory:
    """The local memory in its usual file: how `local` is made by name."""
    return LocalMemory(folder / "memory.db", clock=clock, turns_in_context=TURNS_IN_CONTEXT)
