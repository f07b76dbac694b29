"""The documents name what the code has."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from holdfast.core.distribution import DISTRIBUTION, install_command
from holdfast.core.events import KINDS

EXTRA = re.compile(r"([\w.-]+)\[(\w+)\]")
"""A distribution with an optional part of it, such as `holdfast-agent[postgres]`."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_in_the_description_of_the_api(kind: str, checkout: Path) -> None:
    assert f"| `{kind}` |" in (checkout / "docs" / "http-api.md").read_text(encoding="utf-8")


def documents(checkout: Path) -> list[Path]:
    return [*checkout.glob("*.md"), *checkout.glob("docs/**/*.md")]


def test_the_documents_install_this_project_and_no_other_that_is_called_holdfast(checkout: Path) -> None:
    for document in documents(checkout):
        text = document.read_text(encoding="utf-8")
        assert not re.search(r"(pip|uv) [^\n]*install [^\n]*\bholdfast(?!-agent)\b(?![./])", text), document
        assert "holdfast[" not in text, document


def test_every_optional_part_that_the_documents_name_exists(checkout: Path) -> None:
    known = set(metadata(DISTRIBUTION).get_all("Provides-Extra") or [])
    named = {
        extra
        for document in documents(checkout)
        for distribution, extra in EXTRA.findall(document.read_text(encoding="utf-8"))
        if distribution == DISTRIBUTION
    }
    assert "postgres" in known
    assert named
    assert named <= known


def test_a_message_names_the_distribution_with_its_part() -> None:
    assert install_command("postgres") == "pip install 'holdfast-agent[postgres]'"


def test_every_file_that_the_page_on_changes_names_exists(checkout: Path) -> None:
    page = (checkout / "docs" / "internals" / "where-to-change.md").read_text(encoding="utf-8")
    rows = [line.split("|")[2] for line in page.splitlines() if line.startswith("| ")][1:]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert len(named) > len(rows) > 25
    missing = [name for name in named if not (checkout / "src" / "holdfast" / name).exists()]
    assert missing == []
