"""The pictures in the documents are the state machines of the code, and the architecture stays one page."""

from pathlib import Path

from tools.diagrams import outdated

MOST_WORDS = 1_200
PICTURES = 2


def test_the_documents_show_the_state_machines_of_the_code() -> None:
    assert list(outdated()) == [], "run: python -m tools.diagrams"


def test_the_architecture_is_one_page_with_two_pictures(checkout: Path) -> None:
    page = (checkout / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(page.split()) <= MOST_WORDS
    assert page.count("```mermaid") == PICTURES
