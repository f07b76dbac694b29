"""A durable queue of conversations whose facts a background thread extracts.

The model may take longer than a boundary waits, so the boundary only stores the conversation. One transaction
stores its facts and deletes its text. A conversation that a crash or a failing model has left in the queue is
extracted later, perhaps by another process. Its table is called `stretches`.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Sequence

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreClosed, StoreFailure
from holdfast.providers.holographic.extraction import Utterance, facts_by_rules
from holdfast.providers.holographic.facts import WHOLE_SESSION, FactSource, Statement
from holdfast.providers.holographic.store import FactStore
from holdfast.providers.local.passages import MICRO, storable

logger = logging.getLogger(__name__)

Extract = Callable[[Sequence[Utterance], str], list[Statement]]
"""The facts of a conversation, by the id of its session; the id is empty where it is not known."""

# Longer than a model takes, so no other process extracts the same conversation.
LEASE_SECONDS = 600.0
FIRST_DELAY_SECONDS = 10.0
MAX_DELAY_SECONDS = 3600.0
# After this many failures the rules are used instead of the model.
MAX_ATTEMPTS = 6
MAX_WAIT_SECONDS = 60.0
CLOSE_SECONDS = 3.0


class ExtractionQueue:
    """The queue, and the thread that extracts its conversations."""

    def __init__(self, store: FactStore, extract: Extract, clock: Clock) -> None:
        self._store = store
        self._extract = extract
        self._clock = clock
        self._queries = store.queries
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()  # guards _thread and _current
        self._thread: threading.Thread | None = None
        self._current: int | None = None

    def enqueue(self, conversation: Sequence[Utterance], session_id: str = "") -> None:
        """Store a conversation until its facts are extracted. A known conversation is not added again."""
        queued = {"session": session_id, "utterances": list(conversation)}
        text = storable(json.dumps(queued, ensure_ascii=False))
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._store.write() as connection:
            self._queries.add_conversation(connection, key=key, text=text, created=self._store.now())
        self.start()

    def start(self) -> None:
        """Start the thread, or wake it when it runs."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="holographic-facts", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Stop the thread, waiting for it briefly; the rest of the queue is extracted at the next start."""
        self._stop.set()
        self._wake.set()
        with self._lock:
            thread = self._thread
        if thread is None:
            return
        thread.join(CLOSE_SECONDS)
        with self._lock:
            unfinished = self._current
        if unfinished is not None:
            # Released, so that the next start need not wait for the end of the lease.
            try:
                self._defer(unfinished, 0.0)
            except StoreFailure:
                logger.warning("memory.extraction_not_given_back", exc_info=True)

    def run_once(self) -> bool:
        """Extract the facts of one conversation; False when none is due."""
        claimed = self._claim()
        if claimed is None:
            return False
        conversation_id, session_id, conversation, attempts = claimed
        source = FactSource(session_id, WHOLE_SESSION) if session_id else None
        try:
            self._set_current(conversation_id)
            statements = self._extract(conversation, session_id)
        except Exception:
            # The model may raise anything.
            logger.warning("memory.extraction_failed", exc_info=True, extra={"attempts": attempts})
            if attempts < MAX_ATTEMPTS:
                self._defer(
                    conversation_id, min(MAX_DELAY_SECONDS, FIRST_DELAY_SECONDS * 4 ** (attempts - 1))
                )
                return True
            statements = facts_by_rules(conversation)
        finally:
            self._set_current(None)
        with self._store.write() as connection:
            # Another process may have finished it, if this one took longer than its lease.
            if self._queries.finish_conversation(connection, id=conversation_id):
                self._store.add_extracted_in(connection, [(each, source) for each in statements])
        return True

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                if self.run_once():
                    continue
                pause = self._pause()
            except StoreClosed:
                return
            except Exception:
                # The file can't be used now. The queue stays in it.
                logger.exception("memory.extraction_failed")
                pause = MAX_WAIT_SECONDS
            if not self._stop.is_set():
                self._clock.wait(self._wake, pause)

    def _claim(self) -> tuple[int, str, list[Utterance], int] | None:
        now = self._store.now()
        with self._store.write() as connection:
            found = self._queries.due_conversation(connection, now=now)
            if found is None:
                return None
            until = now + int(LEASE_SECONDS * MICRO)
            self._queries.claim_conversation(connection, id=found[0], now=now, due=until)
        queued = json.loads(found[1])
        # An earlier release stored the utterances alone.
        if isinstance(queued, list):
            queued = {"session": "", "utterances": queued}
        conversation = [(str(role), str(text)) for role, text in queued["utterances"]]
        return int(found[0]), str(queued["session"]), conversation, int(found[2]) + 1

    def _set_current(self, conversation_id: int | None) -> None:
        with self._lock:
            self._current = conversation_id

    def _defer(self, conversation_id: int, seconds: float) -> None:
        with self._store.write() as connection:
            self._queries.defer_conversation(
                connection, id=conversation_id, due=self._store.now() + int(seconds * MICRO)
            )

    def _pause(self) -> float:
        due = self._store.read(self._queries.next_due_conversation)
        if due is None:
            return MAX_WAIT_SECONDS
        return max(0.01, min(MAX_WAIT_SECONDS, float(due) / MICRO - self._clock.now()))
