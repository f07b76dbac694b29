"""The OpenViking provider, for the contract suite, on a server that answers as the real one does."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryProvider
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.testing import ProviderCase
from holdfast.testing.fake_openviking import FakeOpenViking
from holdfast.testing.provider_case import Health


class OpenVikingCase(ProviderCase):
    """On the fake server; `tests/backends` has the real one. Recall knows what a boundary had extracted."""

    commits: ClassVar[bool] = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = FakeOpenViking()

    def make(self) -> MemoryProvider:
        return OpenVikingMemory(self.folder, SystemClock())

    def config(self) -> Mapping[str, str]:
        return {"url": self._server.url, "timeout_s": "5"}

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.set_health("well")
        self._server.stop()

    def stored(self) -> Sequence[str]:
        return self._server.memories()

    def set_health(self, health: Health) -> None:
        self._server.set_health(health)
