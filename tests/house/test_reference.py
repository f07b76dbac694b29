"""Every command, exit code and setting is documented."""

from pathlib import Path

import pytest

from holdfast.cli.commands import app
from holdfast.cli.contract import EXIT_CODES
from holdfast.core.settings import Settings
from holdfast.process import EXIT_STUCK


@pytest.fixture
def reference(checkout: Path) -> str:
    return (checkout / "docs" / "reference.md").read_text(encoding="utf-8")


def test_every_command_is_documented(reference: str) -> None:
    for command in app:
        if not command.startswith("-"):
            assert f"`holdfast {command}" in reference


def test_every_setting_is_documented_with_its_default(reference: str) -> None:
    for section, part in Settings():
        for key, default in part:
            assert f"| `HOLDFAST_{section.upper()}_{key.upper()}` | {shown(default)}" in reference


def shown(default: object) -> str:
    """A default as the table has it; an empty one stands for a place in the data folder."""
    if isinstance(default, tuple):
        return f"`{','.join(default)}` |"
    return f"{default:g} |" if isinstance(default, float) else "`"


def test_every_exit_code_is_documented(reference: str) -> None:
    for code in [0, EXIT_STUCK, *(code for _, code in EXIT_CODES)]:
        assert f"\n| {code} |" in reference
