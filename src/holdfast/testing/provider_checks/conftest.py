"""Fixtures of the checks: the harness for the provider, and the suite's limits."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from holdfast.testing.provider_case import NotOffered
from holdfast.testing.provider_harness import ProviderHarness


@pytest.fixture
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ProviderHarness]:
    suite = request.config.pluginmanager.get_plugin("holdfast-provider-suite")
    if suite is None:
        pytest.skip("run with --provider")
    made = ProviderHarness(suite.make_case, suite.spec, tmp_path, suite.patience)
    yield made
    made.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Skip a check that needs more than the case offers."""
    try:
        return (yield)
    except NotOffered as reason:
        pytest.skip(str(reason))
