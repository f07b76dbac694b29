"""What every test has: clause hooks, `--fast`, the checkout's folder; PostgreSQL is for `make test` alone."""

import signal
from pathlib import Path

import pytest

from tests.fast_run import pytest_addoption, pytest_configure
from tools.clauses import pytest_collection_modifyitems, pytest_terminal_summary

__all__ = [
    "pytest_addoption",
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_terminal_summary",
]

pytest_plugins = ["pytester"]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background by a shell: the programs that tests start must still hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test on PostgreSQL is slow: starting the server alone takes seconds on each worker."""
    on_postgres = "postgres" in item.name or "postgres" in getattr(item, "fixturenames", ())
    if on_postgres and Path(__file__).parent in item.path.parents:
        item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent
