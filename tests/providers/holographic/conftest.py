"""A holographic memory on a file of the test's own."""

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from holdfast.providers.holographic import HolographicMemory
from holdfast.testing import FakeClock

pytest.importorskip("numpy")

OpenMemory = Callable[..., HolographicMemory]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "facts.db"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_memory(path: Path, clock: FakeClock) -> Iterator[OpenMemory]:
    """Opens memories on the one file, and closes them at the end."""
    opened: list[HolographicMemory] = []

    def opener(**options: Any) -> HolographicMemory:  # noqa: ANN401
        opened.append(HolographicMemory(path, clock=clock, zone=UTC, **options))
        return opened[-1]

    yield opener
    for memory in opened:
        memory.shutdown()


@pytest.fixture
def memory(open_memory: OpenMemory) -> HolographicMemory:
    return open_memory()
