"""The fake servers and their providers behind one interface, for tests of both."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.memory import MemoryProvider
from holdfast.memory.config import ProviderConfig
from holdfast.providers.hindsight import HindsightMemory
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.testing.fake_hindsight import FakeHindsight
from holdfast.testing.fake_openviking import FakeOpenViking
from holdfast.testing.faulty_server import Fault, HttpCall

KEY = "the right key"
BANK = "bank"


class Server(Protocol):
    """A server that can be made to fail."""

    @property
    def url(self) -> str: ...
    @property
    def calls(self) -> list[HttpCall]: ...
    def plan(self, fault: Fault) -> Fault: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


@dataclass
class Backend:
    """A server, how its provider is made, and what it has got."""

    name: str
    server: Server
    make: Callable[[Path], MemoryProvider]
    heard: Callable[[str], list[str]]
    """What users said in a session, as often as the server took it."""
    writes: str
    """What stands in the line of a request that writes."""
    key: str = KEY
    bank: str = BANK
    session: str = "s1"
    timeout_s: float = 5.0

    def config(self, key: str | None = None) -> ProviderConfig:
        return config(self.server.url, self.bank, self.key if key is None else key, self.timeout_s)


def config(url: str, bank: str, key: str, timeout_s: float = 5.0) -> ProviderConfig:
    texts = {"mode": "server", "url": url, "bank": bank, "timeout_s": str(timeout_s)}
    return ProviderConfig(texts, {"api_key": Secret(key), "server_key": Secret(key)})


MAKERS: dict[str, Callable[[Path], MemoryProvider]] = {
    "hindsight": lambda folder: HindsightMemory(folder, SystemClock(), environment={}),
    "openviking": lambda folder: OpenVikingMemory(folder, SystemClock()),
}


def hindsight() -> Backend:
    server = FakeHindsight(KEY)

    def heard(session: str) -> list[str]:
        lines = [line for text in server.document(BANK, session) for line in text.splitlines()]
        return [line.removeprefix("user: ") for line in lines if line.startswith("user: ")]

    return Backend("hindsight", server, MAKERS["hindsight"], heard, "/memories HTTP")


def openviking() -> Backend:
    server = FakeOpenViking(KEY)

    def heard(session: str) -> list[str]:
        return [text for text in server.live(session) if not text.startswith("You said")]

    return Backend("openviking", server, MAKERS["openviking"], heard, "/messages/batch")


BACKENDS = {"hindsight": hindsight, "openviking": openviking}
