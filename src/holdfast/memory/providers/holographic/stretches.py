"""Conversations handed over at a boundary: on disk at once, their facts extracted behind on one thread.

A model may take longer than a boundary waits, so the hand-over only stores; the text goes in the transaction
that keeps its facts. What a kill or a failing model leaves behind is taken up again, also by another process.
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Sequence

from holdfast.core.contract import Clock
from holdfast.core.errors import StoreClosed, StoreFailure
from holdfast.memory.providers.holographic.extraction import Spoken, facts_by_rules
from holdfast.memory.providers.holographic.facts import Statement
from holdfast.memory.providers.holographic.store import FactStore, load_queries
from holdfast.memory.providers.local.passages import MICRO, storable

logger = logging.getLogger(__name__)

Extract = Callable[[Sequence[Spoken]], list[Statement]]

# Longer than a model takes: what a process has begun, no other begins meanwhile.
LEASE_SECONDS = 600.0
FIRST_DELAY_SECONDS = 10.0
LONGEST_DELAY_SECONDS = 3600.0
# After so many failures the rules take the model's place.
MOST_ATTEMPTS = 6
LONGEST_WAIT = 60.0
CLOSE_SECONDS = 3.0


class Stretches:
    """The conversations that wait for their facts, and the thread that extracts them."""

    def __init__(self, store: FactStore, extract: Extract, clock: Clock) -> None:
        self._store = store
        self._extract = extract
        self._clock = clock
        self._queries = load_queries()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._lock = threading.Lock()  # guards _thread and _at_work
        self._thread: threading.Thread | None = None
        self._at_work: int | None = None

    def hand_over(self, conversation: Sequence[Spoken]) -> None:
        """Keep a conversation until its facts are extracted. The same one again adds nothing."""
        text = storable(json.dumps(list(conversation), ensure_ascii=False))
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._store.file.write() as connection:
            self._queries.add_stretch(connection, key=key, text=text, created=self._now())
        self.start()

    def start(self) -> None:
        """Extract what waits, on a thread that stays for what comes later."""
        with self._lock:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="holographic-facts", daemon=True)
                self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """End the thread after what it is at, if that is soon; what waits is extracted at the next start."""
        self._stop.set()
        self._wake.set()
        with self._lock:
            thread = self._thread
        if thread is None:
            return
        thread.join(CLOSE_SECONDS)
        with self._lock:
            unfinished = self._at_work
        if unfinished is not None:
            # Given back, so that the next start need not wait for the lease to run out.
            try:
                self._put_off(unfinished, 0.0)
            except StoreFailure:
                logger.warning("memory.extraction_not_given_back", exc_info=True)

    def run_once(self) -> bool:
        """Extract the facts of one conversation; False when none is due."""
        claimed = self._claim()
        if claimed is None:
            return False
        stretch_id, conversation, attempts = claimed
        try:
            self._note(stretch_id)
            statements = self._extract(conversation)
        except Exception:
            # A plugin call: the model may raise anything.
            logger.warning("memory.extraction_failed", exc_info=True, extra={"attempts": attempts})
            if attempts < MOST_ATTEMPTS:
                self._put_off(
                    stretch_id, min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 4 ** (attempts - 1))
                )
                return True
            statements = facts_by_rules(conversation)
        finally:
            self._note(None)
        with self._store.file.write() as connection:
            # Another process may have finished it, if this one took longer than its lease.
            if self._queries.finish_stretch(connection, id=stretch_id):
                self._store.learn_within(connection, [(each, None) for each in statements])
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
                # The file can't serve just now. What waits stays there.
                logger.exception("memory.extraction_failed")
                pause = LONGEST_WAIT
            if not self._stop.is_set():
                self._clock.wait(self._wake, pause)

    def _claim(self) -> tuple[int, list[Spoken], int] | None:
        now = self._now()
        with self._store.file.write() as connection:
            found = self._queries.due_stretch(connection, now=now)
            if found is None:
                return None
            until = now + int(LEASE_SECONDS * MICRO)
            self._queries.claim_stretch(connection, id=found[0], now=now, due=until)
        conversation = [(str(role), str(text)) for role, text in json.loads(found[1])]
        return int(found[0]), conversation, int(found[2]) + 1

    def _note(self, stretch_id: int | None) -> None:
        with self._lock:
            self._at_work = stretch_id

    def _put_off(self, stretch_id: int, seconds: float) -> None:
        with self._store.file.write() as connection:
            self._queries.defer_stretch(connection, id=stretch_id, due=self._now() + int(seconds * MICRO))

    def _pause(self) -> float:
        due = self._store.read(self._queries.next_due_stretch)
        if due is None:
            return LONGEST_WAIT
        return max(0.01, min(LONGEST_WAIT, float(due) / MICRO - self._clock.now()))

    def _now(self) -> int:
        return int(self._clock.now() * MICRO)
