"""Fixtures for signing in: a store in memory, and waiting for what runs on a loop."""

import pytest

from holdfast.sessions import SessionDB
from tests.agent.conftest import wait
from tests.web.api.conftest import in_memory

__all__ = ["in_memory", "wait"]


@pytest.fixture
def db(in_memory: SessionDB) -> SessionDB:
    """How people sign in does not depend on the engine of the store."""
    return in_memory
