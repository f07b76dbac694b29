"""Makes the vectors that passages lack: after each write, and from the start on a thread of its own.

The text is kept already, so a failure costs only vectors: the next write, or the next start, tries again.
"""

import atexit
import logging
import threading

from holdfast.core.errors import StoreClosed
from holdfast.memory.providers.local.embedding import Embedder
from holdfast.memory.providers.local.passages import without_author
from holdfast.memory.providers.local.store import MemoryStore

logger = logging.getLogger(__name__)

AT_ONCE = 32
# Old passages that still lack a vector are caught up with a few at a time when a new one comes.
CAUGHT_UP_AT_MOST = 256
# Between two batches of the thread a write gets its turn, and the processor some rest.
PAUSE_SECONDS = 0.02
CLOSE_SECONDS = 5.0


class VectorMaker:
    """Embeds for one store, one batch at a time, so that nothing is embedded twice."""

    def __init__(self, store: MemoryStore, embedder: Embedder) -> None:
        self._store = store
        self._embedder = embedder
        self._making = threading.Lock()  # held for one batch, never by recall
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def make(self, fresh: int) -> None:
        """Make vectors for what is fresh, and for some of what still has none."""
        for _ in range(1 + (fresh + CAUGHT_UP_AT_MOST) // AT_ONCE):
            if not self._make_batch():
                return

    def catch_up(self) -> None:
        """Make all that is missing, on a thread that ends when it is done. Called once, at the start."""
        if self._store.count_without_vector():
            self._thread = threading.Thread(target=self._run, name="local-memory-vectors", daemon=True)
            # A thread inside the model must not meet the end of the interpreter.
            atexit.register(self.close)
            self._thread.start()

    def close(self) -> None:
        """End the thread after the batch it is at; what is missing is made at the next start."""
        self._stop.set()
        if self._thread is not None:
            atexit.unregister(self.close)
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set() and self._make_batch():
            self._stop.wait(PAUSE_SECONDS)

    def _make_batch(self) -> bool:
        """The newest first. False when nothing is left, or it failed."""
        try:
            with self._making:
                waiting = self._store.without_vector(AT_ONCE)
                if waiting:
                    said = [without_author(speaker, text) for _, speaker, text in waiting]
                    vectors = self._embedder.embed(said).astype("float16")
                    made = [
                        (passage_id, text, row.tobytes())
                        for (passage_id, _, text), row in zip(waiting, vectors, strict=True)
                    ]
                    self._store.add_vectors(self._embedder.model, made)
                return len(waiting) == AT_ONCE
        except StoreClosed:
            return False
        except Exception:
            # A plugin call: without vectors full text still finds it.
            logger.exception("memory.embedding_failed", extra={"model": self._embedder.model})
            return False
