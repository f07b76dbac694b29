"""`Results` of the tool tasks: kept in a file as they come, summed up by profile, and put into the docs."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.table import markdown_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "small-models.md"
BEGIN, END = "<!-- tasks:begin -->\n", "<!-- tasks:end -->\n"
HEADS = ("profile", "solved", "input tokens a task", "output tokens", "steps", "seconds")


@dataclass(frozen=True, slots=True)
class Tried:
    """How one task went under one profile. A task that was not ended in its time has no steps."""

    task: str
    profile: str
    solved: bool
    steps: int
    input_tokens: int
    output_tokens: int
    seconds: float
    note: str = ""

    def __str__(self) -> str:
        return (
            f"{self.task:<14} {self.profile:<9} {self.state:<11} {self.steps} steps "
            f"{self.input_tokens:>6} in {self.output_tokens:>5} out {self.seconds:6.1f} s  {self.note}"
        )

    @property
    def state(self) -> str:
        return "solved" if self.solved else "not solved" if self.steps else "not ended"


class Results:
    """What was tried so far; with a file, also in the runs before."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file and file.exists() else []
        self.tried = [Tried(**json.loads(line)) for line in lines]

    def has(self, task: str, profile: str) -> bool:
        return any((each.task, each.profile) == (task, profile) for each in self.tried)

    def add(self, one: Tried) -> None:
        self.tried.append(one)
        if self._file:
            with self._file.open("a", encoding="utf-8") as out:
                out.write(f"{json.dumps(asdict(one))}\n")


def summary(tried: Sequence[Tried], profiles: Sequence[str]) -> str:
    """One line for each profile, then one for each task, of the tasks that were tried under all of them."""
    names = list(dict.fromkeys(each.task for each in tried))
    found = {(each.task, each.profile): each for each in tried}
    tasks = [name for name in names if all((name, profile) in found for profile in profiles)]
    totals = [_total(profile, [found[task, profile] for task in tasks]) for profile in profiles if tasks]
    cells = [(task, *(_cell(found[task, profile]) for profile in profiles)) for task in tasks]
    return f"{markdown_table(HEADS, totals)}\n\n{markdown_table(('task', *profiles), cells)}"


def _total(profile: str, own: Sequence[Tried]) -> tuple[str, ...]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(own)

    return (
        profile,
        f"{sum(each.solved for each in own)} of {len(own)}",
        f"{mean([each.input_tokens for each in own]):,.0f}",
        f"{mean([each.output_tokens for each in own]):,.0f}",
        f"{mean([each.steps for each in own]):.1f}",
        f"{mean([each.seconds for each in own]):.1f}",
    )


def _cell(one: Tried) -> str:
    return f"{one.state}, {one.seconds:.0f} s"


def write_page(result: str) -> None:
    """Put the result into the docs."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{result}\n\n{END}{after}", encoding="utf-8")
