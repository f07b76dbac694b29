"""The Slack adapter keeps the contract of adapters."""

from pathlib import Path

import pytest

from holdfast.testing.adapter_suite import CHECKS, AdapterCheck, run_check
from holdfast.testing.provider_case import NotOffered
from tests.gateway.slack_platform import SlackPlatform

NOT_TRIED = {"typing"}


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_slack_keeps_the_contract(check: AdapterCheck, tmp_path: Path) -> None:
    try:
        run_check(check, SlackPlatform, tmp_path)
    except NotOffered:
        assert check.name in NOT_TRIED
    else:
        assert check.name not in NOT_TRIED
