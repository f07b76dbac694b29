"""Fixtures of the gateway's tests: a store on each engine on the real clock, and the platforms."""

from collections.abc import Iterator

import pytest

from holdfast.sessions import SessionDB
from tests.gateway.synapse_server import synapse
from tests.gateway.telegram_platform import TelegramPlatform
from tests.sessions.conftest import live_url, postgres

__all__ = ["live_url", "postgres", "synapse"]


@pytest.fixture
def db(live_url: str) -> Iterator[SessionDB]:
    """A store that outlives every host."""
    with SessionDB.open(live_url) as db:
        yield db


@pytest.fixture
def platform() -> TelegramPlatform:
    """Telegram, not started yet."""
    return TelegramPlatform()
