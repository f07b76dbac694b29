"""Which memories are in files on one machine, and that a person with nodes on several machines is told so."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.config import ProviderConfig
from holdfast.providers.hindsight import HindsightMemory
from holdfast.providers.holographic import HolographicMemory
from holdfast.providers.honcho import HonchoMemory
from holdfast.providers.loader import load_providers
from holdfast.providers.local import LocalMemory
from holdfast.providers.mem0 import Mem0Memory
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from holdfast.wiring.memory_setup import attach_object
from tests.memory.conftest import HereOnly, open_store

__all__ = ["open_store"]

PLUGIN = """
from holdfast.testing.providers import RecordingProvider
class Files(RecordingProvider):
    def stores_on_host(self, config):
        return {answer}
def create_provider():
    return Files("files")
"""


@pytest.mark.parametrize(
    ("make", "values", "is_here"),
    [
        (lambda folder: LocalMemory(folder / "file", clock=SystemClock()), {}, True),
        (lambda folder: HolographicMemory(folder / "file", clock=SystemClock()), {}, True),
        (Mem0Memory, {}, True),
        (Mem0Memory, {"mode": "platform"}, False),
        (HonchoMemory, {}, False),
        (lambda folder: HindsightMemory(folder, SystemClock(), environment={}), {"mode": "cloud"}, False),
        (lambda folder: HindsightMemory(folder, SystemClock(), environment={}), {"mode": "local"}, True),
        (
            lambda folder: HindsightMemory(folder, SystemClock(), environment={}),
            {"mode": "local", "database_url": "postgresql://db.example.org/facts"},
            False,
        ),
        (lambda folder: OpenVikingMemory(folder, SystemClock()), {}, False),
        (lambda _: RecordingProvider(), {}, False),
    ],
)
def test_a_provider_says_whether_its_memory_is_in_files_on_this_machine(
    tmp_path: Path, make: Callable[[Path], MemoryProvider], values: dict[str, str], is_here: bool
) -> None:
    assert make(tmp_path).stores_on_host(ProviderConfig(values)) is is_here


@pytest.mark.parametrize(("answer", "is_here"), [("True", True), ("False", False), ("'perhaps'", False)])
def test_a_plugin_says_so_when_it_is_loaded(tmp_path: Path, answer: str, is_here: bool) -> None:
    (tmp_path / "files.py").write_text(PLUGIN.format(answer=answer))
    [ready] = load_providers([], tmp_path, seconds=30).ready
    assert ready.gated.stores_on_host is is_here


def test_a_memory_of_one_machine_is_told_of_where_the_store_serves_several(
    open_store: Callable[[], SessionDB | None],
) -> None:
    store = open_store()
    memory = MemoryManager(store)
    attach_object(memory, HereOnly("files"), None)
    attach_object(memory, RecordingProvider("server"), None)
    is_shared = store is not None and store.is_shared
    assert [(each.provider, each.only_here) for each in memory.status()] == [
        ("files", is_shared),
        ("server", False),
    ]
    memory.shutdown_all()
