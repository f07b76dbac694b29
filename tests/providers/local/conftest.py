"""A local memory, once with vectors and once on full text alone."""

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from holdfast.providers.local import LocalMemory
from holdfast.testing import FakeClock

OpenMemory = Callable[..., LocalMemory]


@pytest.fixture(params=["with vectors", "full text alone"])
def embedder(request: pytest.FixtureRequest) -> Any:  # noqa: ANN401 - the fake, or None
    if request.param == "full text alone":
        return None
    pytest.importorskip("numpy")
    from tests.providers.local.hashing_embedder import HashingEmbedder

    return HashingEmbedder()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def open_memory(path: Path) -> Iterator[OpenMemory]:
    """Opens memories on the one file, and closes them at the end."""
    opened: list[LocalMemory] = []

    def opener(embedder: Any = None, **options: Any) -> LocalMemory:  # noqa: ANN401
        opened.append(LocalMemory(path, clock=FakeClock(), embedder=embedder, zone=UTC, **options))
        return opened[-1]

    yield opener
    for memory in opened:
        memory.shutdown()


@pytest.fixture
def memory(open_memory: OpenMemory, embedder: Any) -> LocalMemory:  # noqa: ANN401
    return open_memory(embedder)
