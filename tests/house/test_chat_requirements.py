"""The page of what people ask of chat gateways names tests that exist."""

import re
from pathlib import Path


def test_every_requirement_names_tests_that_exist(checkout: Path) -> None:
    page = (checkout / "docs" / "chat-requirements.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "Shown here by" not in line]
    named = [re.findall(r"`(test_\w+)`", row) for row in rows]
    assert len(rows) == 21
    assert all(named)
    sources = (file.read_text(encoding="utf-8") for file in (checkout / "tests").rglob("test_*.py"))
    known = {name for source in sources for name in re.findall(r"def (test_\w+)\(", source)}
    assert [name for names in named for name in names if name not in known] == []
