"""Fixtures for the HTTP API: both engines, a store in memory, and a server of the test's own."""

from collections.abc import Iterator

import pytest

from holdfast.sessions import SessionDB
from tests.agent.conftest import db, store_url, wait

__all__ = ["db", "in_memory", "store_url", "wait"]


@pytest.fixture
def in_memory() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        yield db
