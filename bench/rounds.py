"""Fair timing on a noisy machine: contestants take turns, medians are compared, the spread is told."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

MILLI = 1_000


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one contestant, per operation: milliseconds on the wall, and CPU of all threads."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured."""

    messages: int
    levels: int
    rounds: int
    appends: int
    session: int
    batch: int
    probes: int
    facts: tuple[int, ...]


FULL = Scale(
    messages=200_000,
    levels=4,
    rounds=15,
    appends=200,
    session=10_000,
    batch=500,
    probes=2_000,
    facts=(100, 2_000, 20_000),
)
QUICK = Scale(
    messages=1_200, levels=2, rounds=2, appends=20, session=300, batch=100, probes=60, facts=(20, 60)
)


def timed(run: Callable[[], object], operations: int) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Sample(wall / operations * MILLI, cpu / operations * MILLI)


def take_turns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, operations: int = 1
) -> dict[str, list[Sample]]:
    """Run A B, B A, A B, …; the first round warms up and does not count."""
    samples: dict[str, list[Sample]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        names = list(contestants)
        if number % 2 == 0:
            names.reverse()
        for name in names:
            sample = timed(contestants[name], operations)
            if number:
                samples[name].append(sample)
    return samples


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two medians, their ratio, and the middle 80 % of the ratios of single rounds."""

    control: float
    holdfast: float
    ratio: float
    spread: tuple[float, float]


def compare(control: Sequence[float], holdfast: Sequence[float]) -> Comparison:
    """Holdfast over the control, round by round."""
    # A clock may tick too slowly to see a very short round.
    ratios = [ours / max(theirs, 1e-9) for theirs, ours in zip(control, holdfast, strict=True)]
    cuts = quantiles(ratios, n=10, method="inclusive") if len(ratios) > 1 else ratios
    theirs, ours = median(control), median(holdfast)
    return Comparison(theirs, ours, ours / max(theirs, 1e-9), (cuts[0], cuts[-1]))
