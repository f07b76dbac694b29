"""What the tests of the gateway share."""

import pytest

from tests.gateway.telegram_platform import TelegramPlatform


@pytest.fixture
def platform() -> TelegramPlatform:
    """Telegram, not started yet."""
    return TelegramPlatform()
