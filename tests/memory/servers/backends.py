"""The two fake servers and their providers, under one face, for tests that hold for both."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.memory import MemoryProvider
from holdfast.memory.config import ProviderConfig
from holdfast.memory.providers.hindsight import HindsightMemory
from holdfast.memory.providers.openviking import OpenVikingMemory
from holdfast.testing.fake_hindsight import FakeHindsight
from holdfast.testing.fake_openviking import FakeOpenViking

KEY = "the right key"
BANK = "bank"


@dataclass
class Backend:
    """A fake server, how its provider is made, and what it has got."""

    name: str
    server: FakeHindsight | FakeOpenViking
    make: Callable[[Path], MemoryProvider]
    heard: Callable[[str], list[str]]
    """What users said in a session, as often as the server took it."""
    writes: str
    """What stands in the line of a request that writes."""
    texts: dict[str, str] = field(default_factory=dict)

    def config(self, key: str = KEY) -> ProviderConfig:
        texts = {"mode": "server", "url": self.server.url, "bank": BANK, "timeout_s": "5", **self.texts}
        return ProviderConfig(texts, {"api_key": Secret(key), "server_key": Secret(key)})


def hindsight() -> Backend:
    server = FakeHindsight(KEY)

    def heard(session: str) -> list[str]:
        lines = [line for text in server.document(BANK, session) for line in text.splitlines()]
        return [line.removeprefix("user: ") for line in lines if line.startswith("user: ")]

    def make(folder: Path) -> MemoryProvider:
        return HindsightMemory(folder, SystemClock(), environment={})

    return Backend("hindsight", server, make, heard, "/memories")


def openviking() -> Backend:
    server = FakeOpenViking(KEY)

    def heard(session: str) -> list[str]:
        return [text for text in server.live(session) if not text.startswith("You said")]

    def make(folder: Path) -> MemoryProvider:
        return OpenVikingMemory(folder, SystemClock())

    return Backend("openviking", server, make, heard, "/messages/batch")


BACKENDS = {"hindsight": hindsight, "openviking": openviking}
