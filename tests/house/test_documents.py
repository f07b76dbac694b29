"""The documents name what the code has."""

import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from holdfast.core.distribution import DISTRIBUTION, install_command
from holdfast.core.events import KINDS

EXTRAS = re.compile(r"([\w.-]+)\[([\w,-]+)\]")
"""A distribution with optional parts of it, such as `holdfast-agent[postgres,users]`."""
STRANGER = re.compile(
    r"\b(?:(?:pipx?|uv) [^\n]*(?:install|add) [^\n]*|(?:uvx|pipx run) )\bholdfast\b(?!-agent|/|\.\w)"
    r"|\bholdfast\["
)
"""A command that fetches the package `holdfast` of somebody else."""


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_in_the_description_of_the_api(kind: str, checkout: Path) -> None:
    assert f"| `{kind}` |" in (checkout / "docs" / "http-api.md").read_text(encoding="utf-8")


def texts(checkout: Path) -> dict[Path, str]:
    """What tells people how to install something: documents, messages, examples and files for servers."""
    python = (each for folder in ("src", "examples") for each in checkout.glob(f"{folder}/**/*.py"))
    files = [*checkout.glob("*.md"), *checkout.glob("docs/**/*.md"), *python, *checkout.glob("deploy/**/*")]
    files += checkout.glob("examples/**/*.md")
    return {each: each.read_text(encoding="utf-8") for each in files if each.is_file()}


@pytest.mark.parametrize(
    "line",
    [
        *("pip install holdfast", "pip install 'holdfast[postgres]'", "pip install -U holdfast."),
        *("pipx install holdfast", "pipx run holdfast chat", "python -m pip install holdfast==1.0"),
        *("uv pip install holdfast", "uv tool install holdfast", "uv add holdfast", "uvx holdfast chat"),
    ],
)
def test_a_line_that_fetches_the_package_of_somebody_else_is_found(line: str) -> None:
    assert STRANGER.search(line)
    assert not STRANGER.search(line.replace("holdfast", "holdfast-agent"))


def test_the_project_installs_itself_and_no_other_that_is_called_holdfast(checkout: Path) -> None:
    wrong = {
        str(name): found[0] for name, text in texts(checkout).items() if (found := STRANGER.search(text))
    }
    assert wrong == {}


def test_every_optional_part_that_is_named_exists(checkout: Path) -> None:
    known = set(metadata(DISTRIBUTION).get_all("Provides-Extra") or [])
    named = {
        extra
        for text in texts(checkout).values()
        for distribution, extras in EXTRAS.findall(text)
        if distribution == DISTRIBUTION
        for extra in extras.split(",")
    }
    assert {"postgres", "users"} <= named
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
