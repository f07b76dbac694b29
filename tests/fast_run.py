"""`--fast`, which `make check` uses: properties are tried less often, and what tests wait for is left out.

Their files are kept in memory, and their clients trust one certificate instead of the machine's.
"""

import os
import shutil
import tempfile
from pathlib import Path

import certifi
import pytest
from hypothesis import settings

EXAMPLES, FEWER = 100, 25
MEMORY = Path("/dev/shm")
ROOM = 4 << 30


def examples(number: int) -> int:
    """So many in a full run; in a fast one a share of them, though no fewer than ten for that."""
    return min(number, max(10, number * settings().max_examples // 100))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="try properties less often, keep files in memory")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    fast = bool(config.getoption("--fast"))
    # A busy machine is no failure: no example has a deadline.
    settings.register_profile("house", deadline=None, max_examples=FEWER if fast else EXAMPLES)
    settings.load_profile("house")
    if not fast:
        return
    if hasattr(config, "workerinput"):
        return  # a worker is given its folder, and the environment
    folder = Path(tempfile.mkdtemp(prefix="holdfast-tests-", dir=MEMORY if _fits_in_memory() else None))
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    # Most of the time of a test with a store is spent waiting for the disk.
    if config.option.basetemp is None and MEMORY in folder.parents:
        config.option.basetemp = folder / "files"
    # Each client of a server on this machine would read all the certificates that the machine trusts.
    os.environ["SSL_CERT_FILE"] = str(_one_certificate(folder / "one.pem"))


def _fits_in_memory() -> bool:
    try:
        state = os.statvfs(MEMORY)
    except OSError:
        return False
    # Tests start programs that they wrote there.
    return state.f_bavail * state.f_frsize > ROOM and not state.f_flag & os.ST_NOEXEC


def _one_certificate(file: Path) -> Path:
    end = "-----END CERTIFICATE-----\n"
    every = Path(certifi.where()).read_text(encoding="ascii", errors="ignore")
    file.write_text(every[every.index("-----BEGIN") : every.index(end) + len(end)], encoding="ascii")
    return file
