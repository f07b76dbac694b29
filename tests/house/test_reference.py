"""Every command, exit code and setting is documented."""

import re
from pathlib import Path

import pytest

from holdfast.cli.commands import app
from holdfast.cli.contract import EXIT_CODES
from holdfast.core.settings import Settings
from holdfast.core.settings_file import parse_settings
from holdfast.process import EXIT_STUCK


@pytest.fixture
def reference(checkout: Path) -> str:
    return (checkout / "docs" / "reference.md").read_text(encoding="utf-8")


def test_every_command_is_documented(reference: str) -> None:
    for command in app:
        if not command.startswith("-"):
            assert f"`holdfast {command}" in reference


def shown(default: object) -> str:
    """How a default stands in its row; one that is empty is told in words."""
    if isinstance(default, bool):
        return f"`{str(default).lower()}` |"
    if isinstance(default, int | float):
        return f"{default:g} |"
    if default and isinstance(default, tuple):
        return f"`{','.join(default)}` |"
    return f"`{default}` |" if default else ""


def test_every_setting_is_documented_with_its_default(reference: str) -> None:
    for section, part in Settings():
        for key, default in part:
            row = f"| `HOLDFAST_{section.upper()}_{key.upper()}` | {shown(default)}"
            assert row in reference


def test_every_section_and_key_of_the_settings_file_is_shown_and_fits(reference: str) -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", reference, flags=re.MULTILINE | re.DOTALL)
    assert parse_settings("docs/reference.md", example.encode()).keys() == dict(Settings()).keys()


def test_every_exit_code_is_documented(reference: str) -> None:
    for code in [0, EXIT_STUCK, *(code for _, code in EXIT_CODES)]:
        assert f"\n| {code} |" in reference
