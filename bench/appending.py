"""Appends: alone, by eight threads, as the database grows, and the slowest of many."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from bench.rounds import MILLI, Comparison, Sample, Scale, compare, take_turns, timed
from bench.stores import Appender, Control, Holdfast, Journalled, Store, settle
from bench.table import Row, row
from bench.texts import Texts
from holdfast.core.contract import Message

THREADS = 8
PAUSE = 0.055
"""Seconds of rest that make a store begin its deferred work, to be hit by the next append."""

WAYS = {"append_message": "`append_message`", "turns.append": "`turns.append`"}


class Bout:
    """Control and Holdfast with the same messages, and Holdfast's two ways to append."""

    def __init__(self, folder: Path, scale: Scale, texts: Texts) -> None:
        self.scale = scale
        self.texts = texts
        self.control = Control(folder / "control.db")
        self.holdfast = Holdfast(folder / "holdfast.db")
        self.stores: tuple[Store, Store] = (self.control, self.holdfast)
        self.ways: dict[str, Appender] = {
            "control": self.control,
            "append_message": self.holdfast,
            "turns.append": Journalled(self.holdfast),
        }
        self._fresh = (f"probe-{number}" for number in count())
        self._sessions = [f"filled-{number}" for number in range(scale.messages // scale.session)]
        self.filled = 0
        for store in self.stores:
            for session in self._sessions:
                store.start(session)

    @property
    def first_session(self) -> str:
        """A session that has its full length once all is filled."""
        return self._sessions[0]

    def fill(self, total: int) -> None:
        """Bring both stores to `total` messages, the sessions growing side by side."""
        while self.filled < total:
            messages = self.texts.take(self.scale.batch)
            turn = self.filled // self.scale.batch
            for store in self.stores:
                store.fill(self._sessions[turn % len(self._sessions)], messages)
            self.filled += len(messages)
        self.settle()

    def settle(self) -> None:
        """No store starts with a debt."""
        for store in self.stores:
            store.catch_up()
            settle(store.path)

    def runs(self) -> dict[str, Callable[[], None]]:
        """A round of appends by one thread, for each way."""
        messages = self.texts.take(self.scale.appends)
        session = next(self._fresh)
        for name, way in self.ways.items():
            way.start(f"{session}-{name}")
        return {name: appending(way, f"{session}-{name}", messages) for name, way in self.ways.items()}

    def single(self, rounds: int) -> dict[str, list[Sample]]:
        """One thread, one way at a time."""
        return take_turns(self.runs(), rounds=rounds, operations=self.scale.appends)

    def threads(self) -> dict[str, Comparison]:
        """Eight threads: appends a second until the last returned, until all is indexed, and CPU."""
        messages = self.texts.take(self.scale.appends)
        session = next(self._fresh)
        self.control.start(session)
        for thread in range(THREADS):
            self.holdfast.start(f"{session}-{thread}")
        alone = appending(self.control, session, messages)
        control: list[Sample] = []
        returned: list[Sample] = []
        indexed: list[Sample] = []
        for number in range(self.scale.rounds // 2 + 2):
            theirs = timed(alone, len(messages))
            ours = timed(lambda: self._together(session, messages), len(messages) * THREADS)
            rest = timed(self.holdfast.catch_up, len(messages) * THREADS)
            if number:
                control.append(theirs)
                returned.append(ours)
                indexed.append(Sample(ours.wall + rest.wall, ours.cpu + rest.cpu))
        return {
            "returned": compare(rates(control), rates(returned)),
            "indexed": compare(rates(control), rates(indexed)),
            "cpu": compare([each.cpu for each in control], [each.cpu for each in indexed]),
        }

    def _together(self, session: str, messages: Sequence[Message]) -> None:
        def work(thread: int) -> None:
            for message in messages:
                self.holdfast.append(f"{session}-{thread}", message)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def worst(self) -> dict[str, list[float]]:
        """The time of every single append, in milliseconds, with a rest now and then."""
        session = next(self._fresh)
        taken: dict[str, list[float]] = {name: [] for name in self.ways}
        for name, way in self.ways.items():
            way.start(f"{session}-{name}")
        block = max(1, self.scale.probes // 8)
        for _ in range(self.scale.probes // block):
            messages = self.texts.take(block)
            for name, way in self.ways.items():
                taken[name] += latencies(way, f"{session}-{name}", messages, rest=True)
                way.catch_up()
        return taken

    def close(self) -> None:
        for store in self.stores:
            store.close()


def appending(way: Appender, session: str, messages: Sequence[Message]) -> Callable[[], None]:
    """One round: append them all, and leave nothing undone."""

    def run() -> None:
        for message in messages:
            way.append(session, message)
        way.catch_up()

    return run


def latencies(way: Appender, session: str, messages: Sequence[Message], *, rest: bool) -> Iterator[float]:
    """How long each append takes. A rest half-way lets deferred work begin and get in the way."""
    for number, message in enumerate(messages):
        if rest and number == len(messages) // 2:
            time.sleep(PAUSE)
        begun = time.perf_counter()
        way.append(session, message)
        yield (time.perf_counter() - begun) * MILLI


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep every thread of this process on one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = os.sched_getaffinity(0)
    _keep_to({max(allowed)})  # the first one often serves the interrupts
    try:
        yield
    finally:
        _keep_to(allowed)


def _keep_to(cores: set[int]) -> None:
    for thread in threading.enumerate():
        if thread.native_id is not None:
            os.sched_setaffinity(thread.native_id, cores)


def rates(samples: Sequence[Sample]) -> list[float]:
    """Operations a second."""
    return [MILLI / each.wall for each in samples]


def single_rows(samples: Mapping[str, list[Sample]]) -> Iterator[Row]:
    control = samples["control"]
    for name, title in WAYS.items():
        ours = samples[name]
        cpu = compare([each.cpu for each in control], [each.cpu for each in ours])
        yield row(f"CPU per append, {title}", "ms", cpu, at_most=2)
        wall = compare([each.wall for each in control], [each.wall for each in ours])
        yield row(f"wall per append, {title}", "ms", wall)


def thread_rows(bout: Bout) -> Iterator[Row]:
    what = f"{THREADS} threads, control 1 thread"
    compared = bout.threads()
    yield row(f"{what}: appends returned", "/s", compared["returned"], at_least=4)
    yield row(f"{what}: returned and indexed", "/s", compared["indexed"], at_least=4)
    yield row(f"{what}: CPU per append", "ms", compared["cpu"])
    # What waking a thread on another core costs is no part of these.
    with on_one_core():
        compared = bout.threads()
    yield row(f"{what}, all on one core: appends returned", "/s", compared["returned"])
    yield row(f"{what}, all on one core: returned and indexed", "/s", compared["indexed"])


def level_rows(levels: Mapping[int, Mapping[str, list[Sample]]]) -> Iterator[Row]:
    """The cost as the database grows; each level has its own moment, so read along the line."""
    for level, samples in levels.items():
        theirs = [each.cpu for each in samples["control"]]
        for name, title in WAYS.items():
            ours = [each.cpu for each in samples[name]]
            yield row(f"CPU per append at {level:,} messages, {title}", "ms", compare(theirs, ours))


def full_rows(empty: Bout, full: Bout) -> Iterator[Row]:
    """A full database beside an empty one, in the same rounds: what size alone costs.

    Flat means at most 1.5 times; a cost that grows with the number of messages is far above.
    """
    runs = {f"empty {name}": run for name, run in empty.runs().items()}
    runs |= {f"full {name}": run for name, run in full.runs().items()}
    rounds = full.scale.rounds
    samples = take_turns(runs, rounds=rounds, operations=full.scale.appends)
    growth = {
        name: compare(
            [each.cpu for each in samples[f"empty {name}"]],
            [each.cpu for each in samples[f"full {name}"]],
        )
        for name in full.ways
    }
    control = growth["control"].ratio
    for name, title in WAYS.items():
        ours, (low, high) = growth[name].ratio, growth[name].spread
        yield Row(
            f"CPU per append, {full.filled:,} messages / empty, {title}",
            f"{control:.2f} times",
            f"{ours:.2f} times",
            f"{ours / control:.2f}",
            f"{low:.2f} to {high:.2f}",
            "Holdfast's ≤ 1.5",
            ours <= 1.5,
        )


def worst_rows(taken: Mapping[str, list[float]], messages: int) -> Iterator[Row]:
    for name, title in WAYS.items():
        theirs, ours = sorted(taken["control"]), sorted(taken[name])
        rank = len(theirs) * 99 // 100
        yield row(
            f"slowest append of {len(ours):,} at {messages:,} messages, {title}",
            "ms",
            compare(theirs[-1:], ours[-1:]),
            at_most=10,
        )
        yield row(
            f"99th percentile of the same, {title}",
            "ms",
            compare(theirs[rank : rank + 1], ours[rank : rank + 1]),
        )
