"""What every test has: clause hooks, `--fast`, the checkout's folder; PostgreSQL is for `make test` alone."""

import gc
import re
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

pytest_plugins = ["pytester", "tests.postgres_fixtures"]

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # Started in the background by a shell: the programs that tests start must still hear Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Started by nohup: the run outlives its terminal, but programs that tests start inherit no handler.
    signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A test on PostgreSQL is slow, since each worker starts a server, and so is a long one.

    Cases that `soak_cases` names are left to `make soak`: the others prove the same in `make test`.
    """
    case = getattr(getattr(item, "callspec", None), "id", "")
    if any(re.search(mark.args[0], case) for mark in item.iter_markers("soak_cases")):
        item.add_marker(pytest.mark.soak)
    on_postgres = "postgres" in item.name or "postgres" in getattr(item, "fixturenames", ())
    is_long = item.get_closest_marker("soak") is not None
    if (on_postgres or is_long) and Path(__file__).parent in item.path.parents:
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported stays: no garbage collection of the run walks through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent
