"""The holographic memory: what an add and a probe cost at few facts and at many, beside hermes-agent's own.

python -m bench.holographic            100, 2,000 and 20,000 facts, about five minutes

At 20,000 facts the one beside it takes seconds for an add and half a minute for a probe, so it gets few of
them; how many is said in the row. It is filled without its rebuilding after each fact.
"""

import logging
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import cast

from bench.hermes_facts import HermesFacts, installed
from bench.rounds import timed
from bench.table import Row, number, render
from holdfast.core.clock import SystemClock
from holdfast.providers.holographic import HolographicMemory, Statement
from tools.hermes_env import VERSION

FIRST = "Ann Bob Cleo Dan Eve Finn Gus Hana Ivo Jan Kim Lea Max Nia Ole Pia Quin Ray Sue Tom".split()  # noqa: SIM905
LAST = "Archer Baker Carter Draper Fisher Glover Hunter Miller Potter Turner".split()  # noqa: SIM905
WHAT = "oolong chess jazz ceramics sailing fencing poetry gardening cycling baking".split()  # noqa: SIM905
FEWEST_AT = 20_000
AT_ONCE = 500
MOST_GROWTH = 1.5


class Facts:
    """Facts about two hundred people and a hundred projects; no two are the same."""

    def __init__(self) -> None:
        self._chance = random.Random(7)  # noqa: S311 - a schedule, no secret
        self._made = 0

    def person(self) -> str:
        return f"{self._chance.choice(FIRST)} {self._chance.choice(LAST)}"

    def fact(self) -> str:
        self._made += 1
        hobby, project = self._chance.choice(WHAT), f"Project Number{self._made % 100}"
        return f"{self.person()} talked about {hobby} and task {self._made} of {project}"


def holographic_rows(folder: Path, sizes: Sequence[int], say: Callable[[str], None]) -> Iterator[Row]:
    """Add and probe at each size, both contestants with the same facts."""
    missing = installed()
    if missing:
        say(missing)
    logging.getLogger("hermes_holographic").setLevel(logging.ERROR)
    facts = Facts()
    ours = Contestant.ours(folder / "facts.db")
    theirs = None if missing else Contestant.theirs(folder / "hermes.db")
    adds: dict[int, tuple[float, float | None]] = {}
    filled = 0
    for size in sizes:
        say(f"{size:,} facts")
        fresh = [facts.fact() for _ in range(size - filled)]
        few = FEW if size < FEWEST_AT else FEWEST
        mine = ours.measured(fresh, facts, MANY)
        other = None if theirs is None else theirs.measured(fresh, facts, few)
        filled = size
        adds[size] = mine.add_cpu, None if other is None else other.add_cpu
        for what, times, own, beside in (
            ("add a fact at {:,}", few.adds, mine.add, other and other.add),
            ("probe an entity at {:,} facts", few.probes, mine.probe, other and other.probe),
        ):
            against = "" if other is None else f": hermes-agent {VERSION} ({times} times), Holdfast"
            yield _row(what.format(size) + against, own, cast(float | None, beside))
    yield _growth_row(adds)
    ours.close()
    if theirs is not None:
        theirs.close()


@dataclass(frozen=True, slots=True)
class Times:
    """How often each thing is measured."""

    adds: int
    probes: int


MANY, FEW, FEWEST = Times(30, 20), Times(10, 3), Times(3, 1)


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians in milliseconds."""

    add: float
    add_cpu: float
    probe: float


@dataclass(frozen=True, slots=True)
class Contestant:
    """A fact store, by what is measured of it."""

    fill: Callable[[list[str]], object]
    add: Callable[[str], object]
    probe: Callable[[str], object]
    close: Callable[[], object]

    @classmethod
    def ours(cls, path: Path) -> "Contestant":
        memory = HolographicMemory(path, clock=SystemClock())
        return cls(
            partial(_fill, memory),
            memory.add,
            lambda name: memory.run_action(action="probe", entity=name),
            memory.shutdown,
        )

    @classmethod
    def theirs(cls, path: Path) -> "Contestant":
        hermes = HermesFacts(path)
        return cls(hermes.fill, hermes.add, hermes.probe, hermes.close)

    def measured(self, fresh: list[str], facts: Facts, times: Times) -> Measured:
        self.fill(fresh)
        adds = [timed(partial(self.add, facts.fact()), 1) for _ in range(times.adds)]
        probes = [timed(partial(self.probe, facts.person()), 1) for _ in range(times.probes)]
        return Measured(
            median(each.wall for each in adds),
            median(each.cpu for each in adds),
            median(each.wall for each in probes),
        )


def _row(what: str, ours: float, theirs: float | None) -> Row:
    if theirs is None:
        return Row(what, "", f"{number(ours)} ms", "")
    ratio = ours / theirs
    return Row(
        what, f"{number(theirs)} ms", f"{number(ours)} ms", f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.5f}"
    )


def _growth_row(adds: dict[int, tuple[float, float | None]]) -> Row:
    """Whether an add costs the same however many facts there are."""
    (few, first), *_, (many, last) = adds.items()
    grown = last[0] / max(first[0], 1e-9)
    theirs = f"{last[1] / first[1]:.1f} times" if first[1] and last[1] else ""
    return Row(
        f"CPU per add, {many:,} facts / {few:,}",
        theirs,
        f"{grown:.2f} times",
        "",
        goal=f"Holdfast's ≤ {MOST_GROWTH:g}",
        met=grown <= MOST_GROWTH,
    )


def _fill(memory: HolographicMemory, facts: list[str]) -> None:
    for begin in range(0, len(facts), AT_ONCE):
        memory.add_all([Statement(fact) for fact in facts[begin : begin + AT_ONCE]])
    memory.initialize("")


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="holdfast-facts-", dir="/var/tmp") as folder:
        rows = holographic_rows(
            Path(folder), (100, 2_000, 20_000), lambda what: print(what, file=sys.stderr, flush=True)
        )
        print(render(list(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
