"""Four processes append to one file at once."""

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

from bench.appending import latencies
from bench.rounds import Scale, compare
from bench.stores import Control, Holdfast, Store
from bench.table import Row, row
from bench.texts import SEED, Texts

PROCESSES = 4
DEADLINE = 120.0
KINDS: dict[str, type[Control] | type[Holdfast]] = {"control": Control, "holdfast": Holdfast}

Report = tuple[float, float, list[float]]
"""When a process began and ended, and how long each append took."""


def append_beside_others(
    kind: str, path: Path, number: int, appends: int, start: Barrier, reports: "Queue[Report]"
) -> None:
    """What each process does: its own session, its own messages."""
    store: Store = KINDS[kind](path)
    session = f"process-{number}"
    store.start(session)
    messages = Texts(SEED + number).take(appends)
    start.wait(DEADLINE)
    begun = time.monotonic()
    taken = list(latencies(store, session, messages, rest=False))
    reports.put((begun, time.monotonic(), taken))
    store.close()


def together(kind: str, path: Path, appends: int) -> tuple[float, float, list[float]]:
    """Seconds until all have returned, and until all is indexed; and every append's time."""
    KINDS[kind](path).close()
    context = multiprocessing.get_context("spawn")
    start, reports = context.Barrier(PROCESSES), context.Queue()
    children = [
        context.Process(target=append_beside_others, args=(kind, path, number, appends, start, reports))
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    finished: list[Report] = [reports.get(timeout=DEADLINE) for _ in children]
    for child in children:
        child.join(DEADLINE)
    returned = max(end for _, end, _ in finished) - min(begun for begun, _, _ in finished)
    store = KINDS[kind](path)
    begun = time.monotonic()
    store.catch_up()
    indexed = returned + time.monotonic() - begun
    store.close()
    return returned, indexed, [one for _, _, taken in finished for one in taken]


def process_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    appends = scale.appends * 2
    returned: dict[str, list[float]] = {kind: [] for kind in KINDS}
    indexed: dict[str, list[float]] = {kind: [] for kind in KINDS}
    worst: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(max(1, scale.rounds // 3)):
        for kind in KINDS:
            path = folder / f"processes-{kind}-{number}.db"
            first, last, taken = together(kind, path, appends)
            returned[kind].append(PROCESSES * appends / first)
            indexed[kind].append(PROCESSES * appends / last)
            worst[kind].append(max(taken))
    what = f"{PROCESSES} processes, one file"
    yield row(f"{what}: appends returned", "/s", compare(*returned.values()))
    yield row(f"{what}: returned and indexed", "/s", compare(*indexed.values()))
    yield row(f"{what}: slowest append", "ms", compare(*worst.values()))
