"""The diagrams in the architecture page are the state machines of the code."""

from pathlib import Path

from tools.diagrams import with_diagrams


def test_the_architecture_page_shows_the_state_machines_of_the_code(checkout: Path) -> None:
    page = (checkout / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert page == with_diagrams(page), "run: python -m tools.diagrams"
