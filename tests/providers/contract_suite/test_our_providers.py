"""The contract suite over every provider that Holdfast ships: nothing is broken, and each gap is declared."""

from pathlib import Path

import pytest

from tests.providers.contract_suite.provider_cases import OURS
from tests.providers.contract_suite.suite_run import run_suite

pytestmark = pytest.mark.slow

WITH_CLIENTS = ("hindsight", "openviking", "mem0 local", "mem0 platform", "honcho")
"""Those that need a library or a server of others run with the real servers: `make test-backends`."""

CASES = [pytest.param(each, marks=[pytest.mark.backends] if each in WITH_CLIENTS else []) for each in OURS]


@pytest.mark.clause("D2", "D4", "D5", "D6", "D7")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_it_keeps_the_contract(tmp_path: Path, name: str) -> None:
    card, printed = run_suite(OURS[name], tmp_path)
    broken = [f"{each.check}: {each.reason}" for each in card.marks if each.outcome == "no"]
    assert broken == [], printed
    assert card.marks


def test_the_table_in_the_documents_names_every_provider(checkout: Path) -> None:
    table = (checkout / "docs" / "report-cards.md").read_text(encoding="utf-8")
    for name in OURS:
        assert f" {name} |" in table
