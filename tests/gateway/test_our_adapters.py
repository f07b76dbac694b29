"""Our own adapters keep the contract, each over its real protocol."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.testing.adapter_suite import ADAPTER_CHECKS, AdapterCheck, run_adapter_check
from holdfast.testing.chat_platform import ChatPlatform
from holdfast.testing.provider_case import NotOffered
from tests.gateway.discord_server import DiscordPlatform
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.slack_platform import SlackPlatform
from tests.gateway.telegram_platform import TelegramPlatform

PLATFORMS: dict[str, Callable[[], ChatPlatform]] = {
    "discord": DiscordPlatform,
    "slack": SlackPlatform,
    "telegram": TelegramPlatform,
}
NOT_TRIED = {
    "discord": set[str](),
    "slack": {"typing"},
    "telegram": {"bots", "threads", "repeat after a restart", "history"},
    "matrix": {"buttons", "buttons removed"},
}
"""What a platform lacks, or its stand-in can't be told to do."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("platform_name", NOT_TRIED)
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
def test_an_adapter_of_ours_keeps_the_contract(
    check: AdapterCheck, platform_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    make: Callable[[], ChatPlatform]
    if platform_name == "matrix":
        synapse = request.getfixturevalue("synapse")
        make = lambda: MatrixPlatform(synapse)  # noqa: E731
    else:
        make = PLATFORMS[platform_name]
    try:
        run_adapter_check(check, make, tmp_path)
    except NotOffered:
        assert check.name in NOT_TRIED[platform_name]
    else:
        assert check.name not in NOT_TRIED[platform_name]
