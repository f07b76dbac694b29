"""PostgreSQL for every folder of tests: one server for each worker, and schemas that its tests share.

Named once, in the root conftest: a fixture that is imported by another conftest would start a server again.
"""

from collections.abc import Iterator

import pytest

from tests.postgres_server import server_url
from tests.sessions.databases import SharedPostgres, StillPostgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a PostgreSQL server, started when the first test asks for it."""
    with server_url() as url:
        yield url


@pytest.fixture(scope="session")
def shared_postgres(postgres: str) -> Iterator[SharedPostgres]:
    """A schema on the real clock that tests use one after another."""
    shared = SharedPostgres(postgres)
    yield shared
    shared.drop()


@pytest.fixture(scope="session")
def still_postgres(postgres: str) -> Iterator[StillPostgres]:
    """The same, on a clock that tests move."""
    shared = StillPostgres(postgres)
    yield shared
    shared.drop()
