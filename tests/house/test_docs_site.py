"""The site is made from the documents and from what the code knows."""

from pathlib import Path

import pytest

from tools.clauses import ClauseTable, read_clauses
from tools.docs_site import (
    DOCS,
    LINK,
    SiteNotBuilt,
    navigation,
    public_names,
    stage,
    with_source_links,
    with_tests,
)

GUARANTEES = """# G

## M — a turn is never blocked
- M1 It hands work over
  and returns.
- M2 It is done.

## S — nobody gets in
- S1 Own files.
"""


def test_a_clause_gets_links_to_its_tests_and_a_promise_one_to_what_others_do() -> None:
    table = ClauseTable(read_clauses(GUARANTEES))
    for number in range(6):
        table.add("M1", f"tests/a/test_x.py::test_{number}", None)
    text = with_tests(GUARANTEES, table)
    assert "  and returns.\n  <br>*Tests:* [test_0](../tests/a/test_x.py), " in text
    assert "[test_3](../tests/a/test_x.py) and 2 more\n- **M2** It is done." in text
    assert "others.md#a-turn-is-never-blocked-by-memory" in text
    assert text.count("others.md") == 1


def test_links_that_leave_the_documents_lead_to_pages_with_the_source() -> None:
    needed: set[str] = set()
    text = "[states](../../src/holdfast/core/states.py) [why](../decisions) [turn](turn.md#x)"
    changed = with_source_links(text, Path("internals/host.md"), needed)
    assert changed == (
        "[states](../source/src/holdfast/core/states.py.md) [why](../decisions/index.md) [turn](turn.md#x)"
    )
    assert needed == {"src/holdfast/core/states.py"}


def test_every_public_name_is_in_the_reference() -> None:
    page = public_names()
    for name in ("agent.Agent", "SessionDB", "tool", "MemoryProvider", "Settings"):
        assert f"{name}\n" in page


def test_every_document_has_its_place_and_no_dead_link_and_one_without_is_refused(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    stage(DOCS, pages, ClauseTable({}))
    dead = [
        f"{page.name}: {found['target']}"
        for page in pages.rglob("*.md")
        for found in LINK.finditer(page.read_text(encoding="utf-8"))
        if "src" not in page.parts and not (page.parent / found["target"]).exists()
    ]
    assert dead == []
    assert "- [resume.py](examples/resume.py.md)" in (pages / "source" / "examples.md").read_text("utf-8")
    assert {name for each in navigation(pages) for name in each} == {
        "Start",
        "Guides",
        "Guarantees",
        "Reference",
        "Inside",
        "Decisions",
    }
    (pages / "stray.md").write_text("# Stray\n")
    with pytest.raises(SiteNotBuilt, match=r"stray\.md"):
        navigation(pages)
