"""Fixtures of the gateway's tests: a store on each engine on the real clock, and the platforms."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from holdfast.sessions import SessionDB
from tests.gateway.synapse_server import synapse
from tests.sessions.conftest import live_url, postgres

if TYPE_CHECKING:
    from tests.gateway.telegram_platform import TelegramPlatform

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
