"""Calls of tools in a workspace of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.process import DaemonPool
from tests.tools.bubblewrap import need_bubblewrap
from tests.tools.call_fixtures import LONG, Calls


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Calls]:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    pool = DaemonPool("tools", workers=4, backlog=16)
    yield Calls(workspace, pool)
    assert pool.close(LONG) == []


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """For tests that need a sandbox."""
    need_bubblewrap()
