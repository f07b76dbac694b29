"""Makes missing vectors of passages: after each write, and at the start on a background thread.

The text is stored already, so a failure only delays vectors: the next write or the next start tries again.
"""

import atexit
import logging
import threading
from typing import TYPE_CHECKING

from holdfast.core.errors import StoreClosed
from holdfast.providers.local.embedding import Embedder
from holdfast.providers.local.passages import without_author
from holdfast.providers.local.store import PassageStore

if TYPE_CHECKING:
    from holdfast.providers.local.vectors import VectorIndex

logger = logging.getLogger(__name__)

AT_ONCE = 8
# After a write, at most this many older passages without a vector get one.
MAX_CATCH_UP = 256
# The thread pauses between two batches, so that writes are not delayed.
PAUSE_SECONDS = 0.02
CLOSE_SECONDS = 5.0


class VectorBuilder:
    """Embeds the passages of one store, one batch at a time, so that none is embedded twice."""

    def __init__(self, store: PassageStore, embedder: Embedder, index: "VectorIndex") -> None:
        self._store = store
        self._index = index
        self._embedder = embedder
        self._building = threading.Lock()  # held for one batch, never by recall
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def build(self, fresh: int) -> None:
        """Make vectors for new passages, and for some older ones without a vector."""
        for _ in range(1 + (fresh + MAX_CATCH_UP) // AT_ONCE):
            if not self.build_batch():
                return

    def catch_up(self) -> None:
        """Make all missing vectors on a thread that ends when it is done. Called once, at the start."""
        if self._store.count_without_vector():
            self._thread = threading.Thread(target=self._run, name="local-memory-vectors", daemon=True)
            # The thread must not be inside the model when the interpreter ends.
            atexit.register(self.close)
            self._thread.start()

    def close(self) -> None:
        """Stop the thread after its current batch; the next start makes the rest."""
        self._stop.set()
        if self._thread is not None:
            atexit.unregister(self.close)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set() and self.build_batch():
            self._stop.wait(PAUSE_SECONDS)

    def build_batch(self) -> bool:
        """Make the vectors of one batch, newest first; False when none is left, or it failed."""
        try:
            with self._building:
                waiting = self._store.without_vector(AT_ONCE)
                if waiting:
                    texts = [without_author(speaker, text) for _, speaker, text in waiting]
                    made = [(passage_id, text) for passage_id, _, text in waiting]
                    self._index.add(made, self._embedder.embed(texts))
                return len(waiting) == AT_ONCE
        except StoreClosed:
            return False
        except Exception:
            # Full text works without vectors; the embedder may raise anything.
            logger.exception("memory.embedding_failed", extra={"model": self._embedder.model})
            return False
