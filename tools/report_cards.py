"""Runs the contract suite over every provider of ours and prints the table: `make report-cards`.

The table goes to docs/report-cards.md. A provider whose suite ends without a card is named and left out.
"""

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.testing.report_card import MARKS, ReportCard
from tests.providers.contract_suite.provider_cases import OURS
from tests.providers.contract_suite.suite_run import run_suite

HEAD = """# Report cards

Made by `make report-cards`: the contract suite of [writing-a-provider.md](writing-a-provider.md) over every
provider that Holdfast ships. ✓ kept, ✗ broken, ~ a gap that the backend leaves open, · not tried.
Hindsight and OpenViking are judged here on fake servers; `make test-backends` tries them on the real ones.
"""


def page(cards: Mapping[str, ReportCard]) -> str:
    """The whole document."""
    return "\n".join([HEAD, *_table(cards), "", *_reasons(cards)]).rstrip("\n") + "\n"


def _table(cards: Mapping[str, ReportCard]) -> Iterator[str]:
    yield f"| check | {' | '.join(cards)} |"
    yield f"|---|{'---|' * len(cards)}"
    titles = {mark.check: mark.title for card in cards.values() for mark in card.marks}
    for check, title in titles.items():
        found = [next((m.outcome for m in card.marks if m.check == check), None) for card in cards.values()]
        yield f"| **{check}**: {title} | {' | '.join(MARKS[each] if each else '' for each in found)} |"


def _reasons(cards: Mapping[str, ReportCard]) -> Iterator[str]:
    for name, card in cards.items():
        told = [mark for mark in card.marks if mark.reason]
        if told:
            yield f"## {name}\n"
            yield from (f"- {mark.check}, {mark.outcome}: {mark.reason}" for mark in told)
            yield ""


def main() -> int:
    cards = {}
    for name, spec in OURS.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name} …", file=sys.stderr)
            card, printed = run_suite(spec, Path(folder))
            print(printed.splitlines()[-1], file=sys.stderr)
            cards[name] = card
    sys.stdout.write(page(cards))
    return int(any(mark.outcome == "no" for card in cards.values() for mark in card.marks))


if __name__ == "__main__":
    sys.exit(main())
