"""The report card of a provider: each check of the contract suite with its outcome, as text and as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

Outcome = Literal["yes", "no", "gap", "not tried"]
MARKS: dict[Outcome, str] = {"yes": "✓", "no": "✗", "gap": "~", "not tried": "·"}


@dataclass(frozen=True, slots=True)
class Mark:
    """The result of one check. A gap is a check that the provider can't pass, as its case says."""

    check: str
    title: str
    outcome: Outcome
    reason: str = ""


@dataclass
class ReportCard:
    """The results of the suite for one provider."""

    provider: str
    marks: list[Mark] = field(default_factory=list)

    def add(self, mark: Mark) -> None:
        self.marks.append(mark)

    def lines(self) -> Iterator[str]:
        """The card, as text for a terminal."""
        width = max((len(mark.check) for mark in self.marks), default=0)
        for mark in self.marks:
            yield f"{MARKS[mark.outcome]} {mark.check:<{width}}  {mark.title}"
            if mark.reason:
                yield f"  {'':<{width}}  {mark.outcome}: {mark.reason}"
        counts = [(len([each for each in self.marks if each.outcome == kind]), kind) for kind in MARKS]
        yield f"{self.provider}: " + ", ".join(f"{number} {kind}" for number, kind in counts if number)

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> "ReportCard":
        data = json.loads(file.read_text(encoding="utf-8"))
        return cls(data["provider"], [Mark(**each) for each in data["marks"]])
