"""`LiveText`: the text of an answer that still streams, on its way to readers in other processes.

It travels as notes (`Notifications`), not through the tables: the store gets a partial answer twice a
second, and the whole one at its end. A reader asks for a turn's text, again and again while it reads; the
process that runs the turn sends it as long as somebody has asked lately. A note that is lost leaves a gap,
which the store fills.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.core.contract import Clock
from holdfast.sessions.contract import Notifications

ASK_SECONDS, ASKED_SECONDS = 3.0, 8.0
"""How often a reader asks, and for how long it is sent text."""
LONGEST_PIECE = 1_000
"""How many characters one note carries: it fits, however they are written."""


@dataclass(frozen=True, slots=True)
class LivePiece:
    """A part of an answer: of which turn, after how many of its messages, from which character on."""

    turn_id: str
    step: int
    start: int
    text: str


class LiveText:
    """Both ends of the way. Thread-safe."""

    def __init__(self, notifications: Notifications, clock: Clock) -> None:
        self._notifications = notifications
        self._clock = clock
        self._lock = threading.Lock()  # guards what follows
        self._is_subscribed = False
        self._asked: dict[str, float] = {}  # turns that others read, and until when they are sent
        self._noticing: dict[str, Callable[[], object]] = {}
        self._readers: dict[str, Callable[[LivePiece], object]] = {}
        self._asked_at: dict[str, float] = {}

    # where the turn runs

    def is_read_elsewhere(self, turn_id: str) -> bool:
        """Whether another process has asked for this turn's text lately."""
        self._subscribe()
        return self._asked.get(turn_id, 0.0) > self._clock.monotonic()

    @contextmanager
    def notice_readers(self, turn_id: str, notice: Callable[[], object]) -> Iterator[None]:
        """While inside, `notice` is called, on a thread, when another process asks for this turn's text."""
        with self._lock:
            self._noticing[turn_id] = notice
        try:
            yield
        finally:
            with self._lock:
                self._noticing.pop(turn_id, None)

    def send(self, turn_id: str, step: int, start: int, text: str) -> None:
        """Send text to the readers elsewhere."""
        for at in range(0, len(text), LONGEST_PIECE):
            piece = text[at : at + LONGEST_PIECE]
            self._notifications.send(json.dumps([turn_id, step, start + at, piece], ensure_ascii=False))

    # where it is read

    def read(self, turn_id: str, hear: Callable[[LivePiece], object]) -> None:
        """Ask for a turn's text: `hear` gets its pieces, on a thread. To be called again while it is read."""
        self._subscribe()
        now = self._clock.monotonic()
        with self._lock:
            self._readers[turn_id] = hear
            if now - self._asked_at.get(turn_id, -ASK_SECONDS) < ASK_SECONDS:
                return
            self._asked_at[turn_id] = now
        self._notifications.send(json.dumps(turn_id))

    def stop(self, turn_id: str) -> None:
        """Read no more of this turn."""
        with self._lock:
            self._readers.pop(turn_id, None)
            self._asked_at.pop(turn_id, None)

    def _subscribe(self) -> None:
        with self._lock:
            subscribed, self._is_subscribed = self._is_subscribed, True
        if not subscribed:
            self._notifications.subscribe(self._hear)

    def _hear(self, note: str) -> None:
        if not note:
            return
        # A note of another version is nothing to us, and a loop that was to hear of it may have ended.
        with suppress(ValueError, TypeError, RuntimeError):
            found = json.loads(note)
            if isinstance(found, str):
                self._note_asked(found)
            else:
                piece = LivePiece(*found)
                hear = self._readers.get(piece.turn_id)
                if hear is not None:
                    hear(piece)

    def _note_asked(self, turn_id: str) -> None:
        now = self._clock.monotonic()
        with self._lock:
            self._asked = {turn: until for turn, until in self._asked.items() if until > now}
            self._asked[turn_id] = now + ASKED_SECONDS
            notice = self._noticing.get(turn_id)
        if notice is not None:
            notice()
