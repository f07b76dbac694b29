"""`KeylessProvider`: the base of providers whose backend takes single turns and has no idempotency keys.

The write lane is the only writer. It sends each turn and records it in `DeliveredKeys`. After `shutdown` has
begun, no further turn is sent. A turn that is being sent gets a few seconds, then the client is closed and
the turn stays in the outbox. The provider has no queue of its own, so only the lanes need to drain at exit.
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
from holdfast.process.exit_barrier import ExitBarrier
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.delivered_keys import DeliveredKeys

# Shorter than the shutdown of a provider may take, so that there is time to close the client.
FINISH_SECONDS = 8.0


class KeylessProvider(BatchProvider):
    """Sends each turn once, as far as the backend can tell."""

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()  # guards _busy and _closed
        self._busy = 0
        self._keys = DeliveredKeys(folder / f"{self.name}.sent.db")
        self._loading = ExitBarrier()

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def keys(self) -> DeliveredKeys:
        """The turns that were sent."""
        return self._keys

    @abstractmethod
    def load_library(self) -> None:
        """Import everything that the client needs. The exit of the interpreter waits for this import only."""

    @abstractmethod
    def open_client(self, config: ProviderConfig) -> None:
        """Create the client; raise when that fails."""

    @abstractmethod
    def send(self, turn: CompletedTurn) -> None:
        """Send one turn; the backend has it when this returns."""

    @abstractmethod
    def has_turn(self, turn: CompletedTurn) -> bool:
        """Whether the backend has a turn whose sending was interrupted."""

    @abstractmethod
    def close_client(self) -> None:
        """Close the client, even while a call is running. Does nothing without a client."""

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        with self.client_use():
            with self._loading.hold_exit():
                self.load_library()
            self.open_client(kwargs.get("config") or ProviderConfig())

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Send the turns in order, without those that were sent before."""
        for turn in turns:
            with self.client_use():
                known = self._keys.begin(turn.key)
                if known == "new" or (known == "begun" and not self.has_turn(turn)):
                    self.send(turn)
                self._keys.settle(turn.key)

    def shutdown(self) -> None:
        with self._changed:
            first, self._closed = not self._closed, True
            self._changed.wait_for(lambda: not self._busy, FINISH_SECONDS)
        if first:
            self._loading.close()
            self.close_client()
            self._keys.close()

    @contextmanager
    def client_use(self) -> Iterator[None]:
        """A context for each use of the client. `shutdown` waits for it, then it raises `MemoryClosed`."""
        with self._changed:
            if self._closed:
                raise MemoryClosed(self.name)
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()
