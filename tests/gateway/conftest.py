"""Fixtures of the gateway's tests: a store on each engine on the real clock, and the platforms."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.sessions import SessionDB
from tests.gateway.synapse_server import synapse
from tests.gateway.telegram_platform import TelegramPlatform
from tests.sessions.conftest import live_url

HEAVY = ("test_telegram_", "test_discord", "test_our_adapters", "test_matrix")
__all__ = ["live_url", "synapse"]


@pytest.fixture
def db(live_url: str) -> Iterator[SessionDB]:
    """A store that outlives every host."""
    with SessionDB.open(live_url) as db:
        yield db


@pytest.fixture
def telegram(request: pytest.FixtureRequest) -> TelegramPlatform:
    """Telegram, not started yet; a test may name a class of its own."""
    made: TelegramPlatform = getattr(request, "param", TelegramPlatform)()
    return made


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """The fast tests do not load the libraries of the platforms: that alone takes seconds for each worker."""
    if config.getoption("--fast") and collection_path.name.startswith(HEAVY):
        return not collection_path.name.endswith("_markup.py")
    return None
