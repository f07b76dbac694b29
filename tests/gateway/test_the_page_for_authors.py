"""docs/writing-an-adapter.md takes an author to an adapter that passes; its examples are run."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.gateway.platforms import GROUP, find_platform, make_adapter
from holdfast.testing.adapter_suite import ADAPTER_CHECKS
from tests.gateway.test_adapter_plugin import run_suite

FILES = ("corkboard.py", "corkboard_platform.py", "test_corkboard.py")


@pytest.fixture
def page(checkout: Path) -> str:
    return (checkout / "docs" / "writing-an-adapter.md").read_text(encoding="utf-8")


@pytest.fixture
def examples(page: str, tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    for name, text in zip(FILES, blocks, strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
def test_the_examples_of_the_page_pass_the_suite_and_so_does_its_test_file(examples: Path) -> None:
    card, printed = run_suite("corkboard_platform:CorkboardPlatform", examples, "-W", "error", FILES[2])
    assert card is not None, printed
    not_kept = {each.check: each.outcome for each in card.marks if each.outcome != "yes"}
    assert not_kept == {"history": "not tried"}, printed
    assert len(card.marks) == len(ADAPTER_CHECKS)
    assert f"{2 * (len(ADAPTER_CHECKS) - 1)} passed" in printed, printed


def test_the_files_are_named_and_the_adapter_is_made_as_its_entry_point_says(
    page: str, examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(f"`{name}`" in page for name in FILES[:2])
    [toml] = re.findall(r"^```toml\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    [(name, value)] = tomllib.loads(toml)["project"]["entry-points"][GROUP].items()
    facts = examples / "corkboard-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: corkboard\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {value}\n")
    monkeypatch.syspath_prepend(str(examples))
    monkeypatch.delitem(sys.modules, "corkboard", raising=False)
    assert find_platform(name).title == "Corkboard"
    made = make_adapter(name, {"token": "a token"}, {}, examples)
    assert made.traits.repeat == "key"
    with pytest.raises(InvalidInput, match="token"):
        make_adapter(name, {}, {}, examples)


def test_every_check_is_explained_on_the_page(page: str) -> None:
    rows = re.findall(r"^\| ([a-z, -]+) \|", page, re.MULTILINE)
    explained = [name for row in rows for name in row.split(", ")]
    assert sorted(explained) == sorted(["check", *(each.name for each in ADAPTER_CHECKS)])
