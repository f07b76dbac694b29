"""The holographic memory, for the contract suite: without a model, so that rules find the facts."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryProvider
from holdfast.providers.holographic import HolographicMemory
from holdfast.testing import ProviderCase
from holdfast.testing.provider_case import Health, NotOffered


class HolographicCase(ProviderCase):
    """On a file in the folder. Down or wedged: another process holds the file.

    A fact is kept once however often it is said, with the turns that said it: one text for each of those.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._file = folder / "facts.db"
        self._holder: sqlite3.Connection | None = None

    def make(self) -> MemoryProvider:
        return HolographicMemory(self._file, clock=SystemClock())

    def stop(self) -> None:
        self._let_go()

    def stored(self) -> Sequence[str]:
        if not self._file.exists():
            return []
        with closing(sqlite3.connect(f"file:{self._file}?mode=ro", uri=True)) as db:
            rows = db.execute(
                "select f.content from facts f join sources s on s.fact_id = f.id order by f.id, s.turn_id"
            )
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
