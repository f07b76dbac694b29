"""Numbered, forward-only migrations, read from `sql/migrations/<engine>/`.

A migration is `NNNN-name.pre.sql` and, when something must go only after every process runs the new
release, `NNNN-name.post.sql`. A step's name ("0001.pre") is what `meta` remembers; names sort in order.

Opening a store runs what is pending, except post halves at the end: `holdfast store upgrade` runs those. A
file with the line `-- serves: NNNN` says that programs which know schema NNNN work on after it; without the
line only programs that know the step itself do. `meta` remembers that, and an older program is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from holdfast.core.errors import SchemaTooNew, SchemaTooOld

HALVES = {"pre": 0, "post": 1}
SCHEMA, OLDEST_PROGRAM = "schema", "oldest_program"
"""The rows of `meta`."""
SERVES = re.compile(r"^-- serves: (\d{4})$", flags=re.MULTILINE)


@dataclass(frozen=True, order=True)
class Step:
    """One half of one migration."""

    number: int
    half: int
    sql: str
    title: str = ""

    @property
    def name(self) -> str:
        return step_name(self.number, self.half)

    @property
    def serves(self) -> int:
        """The oldest schema whose programs may use a store after this step."""
        said = SERVES.search(self.sql)
        return int(said[1]) if said else self.number


@dataclass(frozen=True)
class SchemaMark:
    """What a store says of its schema: its last step, and the oldest schema that a program must know."""

    applied: str | None = None
    oldest_program: str | None = None

    @classmethod
    def of(cls, rows: dict[str, str]) -> "SchemaMark":
        """From the rows of `meta`."""
        return cls(rows.get(SCHEMA), rows.get(OLDEST_PROGRAM))

    @property
    def serves(self) -> int:
        """0 for an empty database. A store that does not say it serves programs that know all of it."""
        if self.oldest_program is not None:
            return int(self.oldest_program)
        return 0 if self.applied is None else parse_step(self.applied)[0]

    def after(self, step: Step) -> "SchemaMark":
        return SchemaMark(step.name, f"{max(self.serves, step.serves):04d}")

    def rows(self) -> list[tuple[str, str | None]]:
        return [(SCHEMA, self.applied), (OLDEST_PROGRAM, self.oldest_program)]


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
            number, title = stem.split("-", 1)
            text = source.read_text(encoding="utf-8")
            steps.append(Step(int(number), HALVES[half], text, title.replace("-", " ")))
    return sorted(steps)


def pending_steps(
    engine: str, mark: SchemaMark, location: str, steps: Sequence[Step] | None = None
) -> list[Step]:
    """The steps still to run on a database; none on a newer one that still serves this program."""
    steps = all_steps(engine) if steps is None else steps
    if mark.applied is None:
        return list(steps)
    newest = steps[-1]
    try:
        done, serves = parse_step(mark.applied), mark.serves
    except ValueError as cause:
        raise SchemaTooNew(location, repr(mark.applied), newest.name) from cause
    if done > (newest.number, newest.half) and (mark.oldest_program is None or serves > newest.number):
        raise SchemaTooNew(location, mark.applied, newest.name)
    pending = [step for step in steps if (step.number, step.half) > done]
    if pending and pending[0].number > done[0] + 1:
        raise SchemaTooOld(location, mark.applied, step_name(pending[0].number - 1, 0))
    return pending


def steps_at_opening(pending: Sequence[Step], mark: SchemaMark) -> list[Step]:
    """Without the post halves at the end: processes of the release before may still use the store."""
    steps = list(pending)
    while steps and steps[-1].half and mark.applied is not None:
        steps.pop()
    return steps
