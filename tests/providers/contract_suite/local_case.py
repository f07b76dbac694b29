"""The local memory, for the contract suite."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryProvider
from holdfast.providers.local import LocalMemory
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health, NotOffered


class LocalCase(ProviderCase):
    """On a file in the folder, by full text alone. Down or wedged: another process holds the file."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "memory.db"
        self._holder: sqlite3.Connection | None = None

    def make(self) -> MemoryProvider:
        return LocalMemory(self._file, clock=SystemClock(), embedder=None)

    def stop(self) -> None:
        self._let_go()

    def stored(self) -> Sequence[str]:
        if not self._file.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as db:
            rows = db.execute("select text from passages where speaker = 'user' and part = 0 order by id")
            return [text for (text,) in rows]

    def set_health(self, health: Health) -> None:
        self._let_go()
        if health in ("down", "wedged"):
            self._holder = sqlite3.connect(self._file, isolation_level=None)
            self._holder.execute("begin immediate")
        elif health != "well":
            raise NotOffered(f"a file on this machine is not {health}")

    def _let_go(self) -> None:
        if self._holder is not None:
            self._holder.close()
            self._holder = None
