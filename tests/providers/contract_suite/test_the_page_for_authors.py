"""docs/writing-a-provider.md takes an author to a provider that passes; its examples are run."""

import re
from pathlib import Path

import pytest

from tests.providers.contract_suite.suite_run import run_suite

pytestmark = pytest.mark.slow


def test_the_examples_of_the_page_pass_the_suite(checkout: Path, tmp_path: Path) -> None:
    page = (checkout / "docs" / "writing-a-provider.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    for name, text in zip(("notebook.py", "notebook_case.py"), examples, strict=False):
        assert f"`{name}`" in page
        (tmp_path / name).write_text(text, encoding="utf-8")
    first, printed = run_suite("notebook:Notebook", tmp_path, "-k", "not crash and not exit")
    assert {each.outcome for each in first.marks} == {"yes", "not tried"}, printed
    card, printed = run_suite("notebook_case:NotebookCase", tmp_path)
    not_kept = {each.check: each.outcome for each in card.marks if each.outcome != "yes"}
    assert not_kept == dict.fromkeys(("tools", "forget", "slow", "wedged"), "not tried"), printed


def test_every_check_is_explained_on_the_page(checkout: Path) -> None:
    page = (checkout / "docs" / "writing-a-provider.md").read_text(encoding="utf-8")
    explained = {
        name for row in re.findall(r"^\| ([a-z, -]+) \|", page, re.MULTILINE) for name in row.split(", ")
    }
    checks = checkout / "src" / "holdfast" / "testing" / "provider_checks"
    named = {
        name
        for file in checks.glob("check_*.py")
        for name in re.findall(r"@check\(\"([^\"]+)\"", file.read_text(encoding="utf-8"))
    }
    assert named
    assert named - explained == set()
