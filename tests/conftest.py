"""What every test has: the clause hooks and the folder of the checkout."""

from pathlib import Path

import pytest

from tools.clauses import pytest_collection_modifyitems, pytest_terminal_summary

__all__ = ["pytest_collection_modifyitems", "pytest_terminal_summary"]

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the repository."""
    return Path(__file__).resolve().parent.parent
