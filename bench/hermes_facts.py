"""The fact store that ships with hermes-agent, loaded from its own folder: what ours is measured beside.

It is installed for tests and benchmarks alone, by `tools/hermes_env.py`.
"""

import importlib
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.bootstrap import CannotBootstrap
from tools.hermes_env import PLACE, VERSION, hermes_folder, hermes_plugins

PACKAGE = "hermes_holographic"


def installed() -> str:
    """Install it when it isn't there; what kept it from being, or nothing."""
    try:
        hermes_folder()
    except (OSError, subprocess.SubprocessError, CannotBootstrap) as problem:
        return f"hermes-agent {VERSION} could not be installed: {problem}"
    return ""


def is_here() -> bool:
    """Whether it was installed before."""
    return (PLACE / VERSION).exists()


class HermesFacts:
    """Its store and its retriever on one file."""

    def __init__(self, path: Path) -> None:
        store, retrieval = _modules()
        self._store: Any = store.MemoryStore(path)
        self._retriever: Any = retrieval.FactRetriever(self._store)

    def fill(self, facts: Sequence[str]) -> None:
        """Add facts without the rebuilding after each, which would take hours; the last one does it."""
        rebuild = self._store._rebuild_bank  # noqa: SLF001 - nothing else lets it fill in time
        self._store._rebuild_bank = lambda _: None  # noqa: SLF001
        try:
            for fact in facts[:-1]:
                self._store.add_fact(fact)
        finally:
            self._store._rebuild_bank = rebuild  # noqa: SLF001
        self._store.add_fact(facts[-1])

    def add(self, fact: str) -> None:
        self._store.add_fact(fact)

    def probe(self, name: str) -> int:
        return len(self._retriever.probe(name))

    def search(self, query: str, limit: int) -> list[int]:
        """The ids of what it finds, best first."""
        return [int(found["fact_id"]) for found in self._retriever.search(query, limit=limit)]

    def close(self) -> None:
        self._store.close()


def _modules() -> tuple[ModuleType, ModuleType]:
    """Its two modules, without its plugin's own start-up, which wants the whole program."""
    if PACKAGE not in sys.modules:
        package = ModuleType(PACKAGE)
        package.__path__ = [str(hermes_plugins() / "holographic")]
        sys.modules[PACKAGE] = package
        state = ModuleType("hermes_state")
        # All that it wants of the program's own store is that WAL is switched on.
        state.apply_wal_with_fallback = _switch_wal_on  # type: ignore[attr-defined]
        sys.modules["hermes_state"] = state
    return importlib.import_module(f"{PACKAGE}.store"), importlib.import_module(f"{PACKAGE}.retrieval")


def _switch_wal_on(connection: sqlite3.Connection, **_: object) -> None:
    connection.execute("pragma journal_mode = wal")
