"""Every test that asks for `world` runs in memory, and on each engine of the store."""

from collections.abc import Iterator

import pytest

from tests.memory.lifecycle.worlds import World
from tests.sessions.conftest import database, postgres, shared_postgres
from tests.sessions.stores import Database, SharedPostgres, sqlite_database

__all__ = ["database", "postgres", "shared_postgres"]


@pytest.fixture(params=["memory", "unknown to the store", "sqlite", "postgres"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A lifecycle, and sessions that its store knows or does not know."""
    if request.param == "memory":
        yield World(None, known=False)
        return
    place: Database
    if request.param == "postgres":
        shared: SharedPostgres = request.getfixturevalue("shared_postgres")
        place = shared.database()
    else:
        place = sqlite_database(tmp_path_factory.mktemp("store"))
    yield World(place.open(), known=request.param != "unknown to the store")
    place.close()
