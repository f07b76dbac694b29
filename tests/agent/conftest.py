"""Fixtures for the agent: stores on both engines, and agents that are closed when the test ends."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import DEADLINE
from tests.sessions.databases import SharedPostgres, sqlite_file

T = TypeVar("T")


# On PostgreSQL in `make test`: the store's own contract suite runs there in every check.
@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a store of the test's own."""
    if request.param == "sqlite":
        yield f"sqlite:///{sqlite_file(tmp_path)}"
        return
    shared: SharedPostgres = request.getfixturevalue("shared_postgres")
    yield shared.empty()


@pytest.fixture
def db(store_url: str) -> Iterator[SessionDB]:
    with SessionDB.open(store_url) as opened:
        yield opened


@pytest.fixture
def wait() -> Callable[[Awaitable[Any]], Any]:
    """Runs a coroutine to its end under a deadline."""

    def run(work: Awaitable[T]) -> T:
        async def limited() -> T:
            async with asyncio.timeout(DEADLINE):
                return await work

        return asyncio.run(limited())

    return run
