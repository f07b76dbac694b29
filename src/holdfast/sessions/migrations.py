"""Numbered, forward-only migrations, read from `sql/migrations/<engine>/`.

A migration is `NNNN-name.pre.sql` and, when something must go only after every process runs the new
release, `NNNN-name.post.sql`. A step's name ("0001.pre") is what `meta` remembers; names sort in order.
"""

from dataclasses import dataclass
from importlib.resources import files

from holdfast.core.errors import SchemaTooNew

HALVES = {"pre": 0, "post": 1}


@dataclass(frozen=True, order=True)
class Step:
    """One half of one migration."""

    number: int
    half: int
    sql: str

    @property
    def name(self) -> str:
        return step_name(self.number, self.half)


def step_name(number: int, half: int) -> str:
    return f"{number:04d}.{list(HALVES)[half]}"


def parse_step(name: str) -> tuple[int, int]:
    number, half = name.split(".")
    return int(number), HALVES.get(half, len(HALVES))


def all_steps(engine: str) -> list[Step]:
    """Every step this release knows, oldest first."""
    folder = files("holdfast.sessions").joinpath("sql", "migrations", engine)
    steps = []
    for source in folder.iterdir():
        stem, half, suffix = source.name.rsplit(".", 2)
        if suffix == "sql":
            number = int(stem.split("-", 1)[0])
            steps.append(Step(number, HALVES[half], source.read_text(encoding="utf-8")))
    return sorted(steps)


def pending_steps(engine: str, applied: str | None, location: str) -> list[Step]:
    """The steps still to run on a database whose last step is `applied`."""
    steps = all_steps(engine)
    if applied is None:
        return steps
    try:
        done = parse_step(applied)
    except ValueError as cause:
        raise SchemaTooNew(location, repr(applied), steps[-1].name) from cause
    if done > (steps[-1].number, steps[-1].half):
        raise SchemaTooNew(location, applied, steps[-1].name)
    return [step for step in steps if (step.number, step.half) > done]
