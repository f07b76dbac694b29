"""Honcho behind a fake that speaks its protocol, for the contract suite."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.memory import MemoryProvider
from holdfast.providers.honcho import HonchoMemory
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health
from tests.providers.contract_suite.honcho_fake import FakeHoncho


class HonchoCase(ProviderCase):
    """The server is the suite's; the provider's own record is in the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = FakeHoncho()

    def make(self) -> MemoryProvider:
        return HonchoMemory(self.folder)

    def start(self) -> None:
        self._server.backend.start()

    def stop(self) -> None:
        self._server.backend.stop()

    def config(self) -> Mapping[str, str]:
        return {"url": self._server.backend.url, "api_key": "k"}

    def stored(self) -> Sequence[str]:
        return self._server.said()

    def set_health(self, health: Health) -> None:
        self._server.backend.health = health
