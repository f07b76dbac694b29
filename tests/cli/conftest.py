"""Fixtures for the commands: a person's folders."""

from pathlib import Path

import pytest

from tests.cli.real_terminal import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)
