"""mem0, for the contract suite: its library for real on a scripted model, and its platform behind a fake."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from holdfast.memory import MemoryProvider
from holdfast.providers.mem0 import Mem0Memory
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health
from tests.providers.contract_suite.mem0_fake import FakePlatform
from tests.providers.contract_suite.openai_fake import DIMENSIONS, FakeOpenAI


class Mem0LocalCase(ProviderCase):
    """Looked into through mem0's own history of what it added."""

    gaps: ClassVar[Mapping[str, str]] = {
        "same words": "mem0 keeps a fact once, by its words",
    }

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = FakeOpenAI()

    def make(self) -> MemoryProvider:
        return Mem0Memory(self.folder)

    def start(self) -> None:
        self._server.backend.start()

    def stop(self) -> None:
        self._server.backend.stop()

    def config(self) -> Mapping[str, str]:
        return {"mode": "local", "llm_url": f"{self._server.backend.url}/v1", "dimensions": str(DIMENSIONS)}

    def stored(self) -> Sequence[str]:
        file = self.folder / "mem0" / "history.db"
        if not file.exists():
            return []
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as db:
            if not db.execute("select 1 from sqlite_master where name = 'history'").fetchone():
                return []
            return [text for (text,) in db.execute("select new_memory from history order by rowid")]

    def set_health(self, health: Health) -> None:
        self._server.backend.health = health


class Mem0PlatformCase(ProviderCase):
    """The platform is the suite's; the provider's own record is in the folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = FakePlatform()

    def make(self) -> MemoryProvider:
        return Mem0Memory(self.folder)

    def start(self) -> None:
        self._server.backend.start()

    def stop(self) -> None:
        self._server.backend.stop()

    def config(self) -> Mapping[str, str]:
        return {"mode": "platform", "host": self._server.backend.url, "api_key": "k"}

    def stored(self) -> Sequence[str]:
        return [each["memory"] for each in self._server.kept]

    def set_health(self, health: Health) -> None:
        self._server.backend.health = health
