"""Fixtures of the gateway's tests: a store on each engine on the real clock, and the platforms."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.sessions import SessionDB
from tests.gateway.synapse_server import synapse
from tests.sessions.conftest import live_url, postgres

if TYPE_CHECKING:
    from tests.gateway.telegram_platform import TelegramPlatform

HEAVY = ("test_telegram_", "test_discord", "test_our_adapters", "test_matrix")
__all__ = ["live_url", "postgres", "synapse"]


@pytest.fixture
def db(live_url: str) -> Iterator[SessionDB]:
    """A store that outlives every host."""
    with SessionDB.open(live_url) as db:
        yield db


@pytest.fixture
def telegram() -> "TelegramPlatform":
    """Telegram, not started yet."""
    # To load the library behind it takes seconds, which the other tests need not wait.
    from tests.gateway.telegram_platform import TelegramPlatform

    return TelegramPlatform()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast tests do not load the libraries of the platforms: that alone takes seconds for each worker."""
    if config.getoption("--fast") and collection_path.name.startswith(HEAVY):
        return not collection_path.name.endswith("_markup.py")
    return None
