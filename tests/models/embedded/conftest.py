"""The embedded model as it is installed here, and requests to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.models.embedded import embedded_state, open_embedded
from holdfast.models.gguf import GgufModel
from tests.models.embedded.gguf_fixtures import closed, endless_model


@pytest.fixture(scope="session")
def weights() -> Path:
    """The file of weights; without it, or without the runtime, there is nothing to test."""
    state = embedded_state(Path("/nowhere"))
    if not state.ready or state.weights is None:
        pytest.skip(f"the embedded model is not installed: {state.missing}")
    return state.weights


@pytest.fixture(scope="module")
def model(weights: Path) -> Iterator[GgufModel]:
    """One model for a whole file of tests: it stays loaded."""
    opened = open_embedded(Path("/nowhere"), weights=weights)
    yield opened
    closed(opened)


@pytest.fixture(scope="module")
def endless(weights: Path) -> Iterator[GgufModel]:
    """A model whose answers go on until they are stopped."""
    opened = endless_model(weights)
    yield opened
    closed(opened)
