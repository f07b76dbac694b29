"""The Hindsight provider, for the contract suite, on a server that answers as the real one does."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryProvider
from holdfast.providers.hindsight import HindsightMemory
from holdfast.testing import ProviderCase
from holdfast.testing.fake_hindsight import FakeHindsight
from holdfast.testing.provider_case import Health


class HindsightCase(ProviderCase):
    """On the fake server; `tests/backends` has the real one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = FakeHindsight()

    def make(self) -> MemoryProvider:
        return HindsightMemory(self.folder, SystemClock(), environment={})

    def config(self) -> Mapping[str, str]:
        return {"mode": "server", "url": self._server.url, "bank": "cases", "timeout_s": "5"}

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.set_health("well")
        self._server.stop()

    def stored(self) -> Sequence[str]:
        return [str(item["content"]).partition("\n\nassistant: ")[0] for item in self._server.items()]

    def set_health(self, health: Health) -> None:
        self._server.set_health(health)
