"""`SendingProvider`: what providers share whose backend takes turns one by one and knows no keys.

Each turn is sent on the write lane, which is the provider's one writer, and recorded in `DeliveredKeys`. Once
`shutdown` has begun, nothing more is sent; what is being sent gets a few seconds, then the client is closed
under it, and the turn stays owed. Nothing waits in here, so the lanes' own drain at exit is all there is.
"""

import threading
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.errors import MemoryClosed
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.providers.batches import BatchProvider
from holdfast.memory.providers.delivered import DeliveredKeys
from holdfast.process.unbroken import Unbroken

# Less than a provider's shutdown may take, so that closing the client is within it too.
FINISH_SECONDS = 8.0


class SendingProvider(BatchProvider):
    """Sends each turn once, as far as its backend lets it tell."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()  # guards _busy, _closed and _keys
        self._busy = 0
        self._closed = False
        self._keys: DeliveredKeys | None = None
        self._loading = Unbroken()

    @abstractmethod
    def load_library(self) -> None:
        """Import what the client needs, all of it: the interpreter's exit waits for this, and only this."""

    @abstractmethod
    def open_client(self, config: ProviderConfig) -> None:
        """Make the client; raise what is wrong."""

    @abstractmethod
    def send(self, turn: CompletedTurn) -> None:
        """Send one turn; when this returns, the backend has it."""

    @abstractmethod
    def is_there(self, turn: CompletedTurn) -> bool:
        """Whether the backend has a turn whose sending was cut off."""

    @abstractmethod
    def close_client(self) -> None:
        """Close it, also under a call that is still out. Nothing happens when there is none."""

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        with self.working():
            with self._loading.section():
                self.load_library()
            self.open_client(kwargs.get("config") or ProviderConfig())

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Send the turns in order; what was sent before is left out, also when a later one fails."""
        for turn in turns:
            with self.working() as keys:
                known = keys.begin(turn.key)
                if known == "new" or (known == "begun" and not self.is_there(turn)):
                    self.send(turn)
                keys.settle(turn.key)

    def shutdown(self) -> None:
        with self._changed:
            first, self._closed = not self._closed, True
            self._changed.wait_for(lambda: not self._busy, FINISH_SECONDS)
            keys, self._keys = self._keys, None
        if not first:
            return
        self._loading.close()
        self.close_client()
        if keys is not None:
            keys.close()

    @contextmanager
    def working(self) -> Iterator[DeliveredKeys]:
        """Around each use of the client: refused once shutdown has begun, and waited for by it."""
        with self._changed:
            if self._closed:
                raise MemoryClosed(self.name)
            self._busy += 1
            if self._keys is None:
                self._keys = DeliveredKeys(self.folder / f"{self.name}.sent.db")
            keys = self._keys
        try:
            yield keys
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()

    @property
    def closed(self) -> bool:
        return self._closed
