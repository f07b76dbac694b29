"""What every check has: a stand for the provider, and the suite's limits."""

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from holdfast.testing.provider_case import NotOffered
from holdfast.testing.provider_stand import Stand


@pytest.fixture
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stand]:
    suite = request.config.pluginmanager.get_plugin("holdfast-provider-suite")
    if suite is None:
        pytest.skip("run with --provider")
    stand = Stand(suite.make_case, suite.spec, tmp_path, suite.patience)
    yield stand
    stand.close()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """A check that needs what the case doesn't offer is not tried."""
    try:
        return (yield)
    except NotOffered as reason:
        pytest.skip(str(reason))
