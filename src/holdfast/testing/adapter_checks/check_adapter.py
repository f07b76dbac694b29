"""The tests of a run with `pytest --adapter`: one for each check."""

from pathlib import Path

import pytest

from holdfast.testing.adapter_suite import ADAPTER_CHECKS, AdapterCheck, run_adapter_check
from holdfast.testing.provider_case import NotOffered


@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
def test_adapter(check: AdapterCheck, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    suite = request.config.pluginmanager.get_plugin("holdfast-adapter-suite")
    if suite is None:
        pytest.skip("run with --adapter")
    try:
        run_adapter_check(check, suite.make_platform, tmp_path, suite.patience)
    except NotOffered as reason:
        pytest.skip(str(reason))
