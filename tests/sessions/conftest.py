"""Fixtures for the store's contract suite: every test that asks for `database` runs on every engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sessions import SessionDB
from tests.sessions.databases import Database, SharedPostgres, StillPostgres, sqlite_database, sqlite_file

ENGINES = ("sqlite", "postgres")


@pytest.fixture(params=ENGINES)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A fresh database on the engine at hand, with a clock that stands still."""
    if request.param == "sqlite":
        database = sqlite_database(tmp_path)
    else:
        shared: StillPostgres = request.getfixturevalue("still_postgres")
        database = shared.database()
    yield database
    database.close()


@pytest.fixture
def db(database: Database) -> SessionDB:
    """A store on a fresh database."""
    return database.open()


@pytest.fixture(params=ENGINES)
def live_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database on the real clock, for tests with several processes."""
    if request.param == "sqlite":
        yield f"sqlite:///{sqlite_file(tmp_path)}"
        return
    shared: SharedPostgres = request.getfixturevalue("shared_postgres")
    yield shared.empty()


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[SessionDB]:
    """A second, empty store on SQLite, whatever engine the first one is on."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = sqlite_database(folder)
    yield other.open()
    other.close()
