"""Every test that asks for `harness` runs in memory, and on each engine of the store."""

from collections.abc import Iterator

import pytest

from tests.memory.lifecycle.lifecycle_harness import LifecycleHarness
from tests.sessions.conftest import database
from tests.sessions.databases import Database, StillPostgres, sqlite_database

__all__ = ["database"]


@pytest.fixture(params=["memory", "unknown to the store", "sqlite", "postgres"])
def harness(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LifecycleHarness]:
    """A lifecycle, and sessions that its store knows or does not know."""
    if request.param == "memory":
        yield LifecycleHarness(None, known=False)
        return
    place: Database
    if request.param == "postgres":
        shared: StillPostgres = request.getfixturevalue("still_postgres")
        place = shared.database()
    else:
        place = sqlite_database(tmp_path_factory.mktemp("store"))
    yield LifecycleHarness(place.open(), known=request.param != "unknown to the store")
    place.close()
