"""The table of report cards: a column for each provider, a row for each check, and every reason."""

from holdfast.testing.report_card import Mark, ReportCard
from tools.report_cards import page


def test_the_page_has_every_outcome_and_its_reason() -> None:
    one = ReportCard("a:A", [Mark("order", "In order", "yes"), Mark("crash", "No loss", "no", "lost 2")])
    two = ReportCard("b:B", [Mark("order", "In order", "gap", "no key")])
    text = page({"one": one, "two": two})
    assert "| check | one | two |" in text
    assert "| **order**: In order | ✓ | ~ |" in text
    assert "| **crash**: No loss | ✗ |  |" in text
    assert "## one\n\n- crash, no: lost 2" in text
    assert "## two\n\n- order, gap: no key" in text
