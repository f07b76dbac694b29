"""Servers with a chat platform of another package that never answers: they come up without it, and say so."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.cli.real_terminal import COMMAND, PATIENCE, Home
from tests.gateway.hanging_platform import install_platforms

pytestmark = [pytest.mark.slow, pytest.mark.clause("X5")]  # each starts a command
LATE = "! hanging did not answer in 5 s; going on without it"
CONNECTED = "sound is connected as"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("hangs", ["import", "factory"])
@pytest.mark.parametrize("command", [("gateway",), ("web", "--port", "0", "--gateway")])
def test_a_server_comes_up_without_a_chat_platform_that_hangs_and_serves_the_others(
    home: Home, command: Sequence[str], hangs: str
) -> None:
    home.settings["HOLDFAST_GATEWAY_ACCOUNTS"] = "hanging,sound"
    with started(home, hangs, command) as server:
        assert server.stdout is not None
        wanted = {LATE, CONNECTED} | ({"http://"} if "web" in command else set())
        read_until(server.stdout, wanted)
        server.terminate()
        assert server.wait(PATIENCE) == 128 + signal.SIGTERM


def test_a_gateway_whose_only_platform_hangs_says_that_no_account_is_left(home: Home) -> None:
    home.settings["HOLDFAST_GATEWAY_ACCOUNTS"] = "hanging"
    with started(home, "import", ("gateway",)) as server:
        said, _ = server.communicate(timeout=PATIENCE)
    assert LATE in said
    assert "no account is left to serve" in said
    assert server.returncode == 2


@contextmanager
def started(home: Home, hangs: str, command: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    path = install_platforms(home.folder / "packages", hangs)
    with subprocess.Popen(
        [sys.executable, *COMMAND, *command],
        env=home.environment(PYTHONPATH=path),
        cwd=home.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(output: IO[str], wanted: set[str]) -> None:
    """Read lines until each of these has been in one."""
    lines: list[str] = []
    for line in output:
        lines.append(line)
        wanted = {each for each in wanted if each not in line}
        if not wanted:
            return
    raise AssertionError(f"{wanted} not in {lines}")
