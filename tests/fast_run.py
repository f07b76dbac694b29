"""`--fast`, which `make check` uses: fewer examples of each property, and the tests' files in memory."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

FEWER = 25
MEMORY = Path("/dev/shm")
ROOM = 4 << 30


def examples(number: int) -> int:
    """So many in a full run; in a fast one a share of them, though no fewer than ten for that."""
    return min(number, max(10, number * settings().max_examples // 100))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="try properties less often, keep files in memory")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--fast"):
        return
    settings.register_profile("fast", max_examples=FEWER)
    settings.load_profile("fast")
    # Most of the time of a test with a store is spent waiting for the disk. A worker is given its folder.
    if config.option.basetemp is None and _fits_in_memory():
        folder = tempfile.mkdtemp(prefix="holdfast-tests-", dir=MEMORY)
        config.option.basetemp = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _fits_in_memory() -> bool:
    try:
        state = os.statvfs(MEMORY)
    except OSError:
        return False
    # Tests start programs that they wrote there.
    return state.f_bavail * state.f_frsize > ROOM and not state.f_flag & os.ST_NOEXEC
