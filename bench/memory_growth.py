"""`python -m bench.memory_growth`: how the local memory grows, from 1,000 to 1,000,000 passages.

python -m bench.memory_growth                        print the numbers
python -m bench.memory_growth --write docs           and write docs/memory-growth.md with its pictures
python -m bench.memory_growth --most 100000          stop earlier

Texts are made of real-looking words. Their vectors are those of a few hundred made-up sentences by the real
model, each with noise, because a million real ones take hours. They are stored many at a time; only the last
ones of each size as the program does it, eight at a time. The question is embedded by the real model.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.curves import Curve, picture
from bench.recall_latency import Speech, made_turn
from bench.web import memory_kib
from holdfast.core.clock import SystemClock
from holdfast.providers.local import LocalMemory, MiniLM
from holdfast.providers.local.store import PassageStore
from holdfast.providers.local.vector_builder import AT_ONCE
from holdfast.providers.local.vectors import VectorIndex
from holdfast.providers.local.worker import limit_memory

SIZES = (1_000, 10_000, 100_000, 1_000_000)
GOALS_MS = {100_000: 20, 1_000_000: 60}
QUESTIONS = 100
BATCH = 200
POOL = 400
"""Sentences that are embedded by the real model."""
NOISE = 0.6
"""How long the noise on such a vector is, which itself has the length 1."""
VECTORS_AT_ONCE = 2_000
AS_THE_PROGRAM_DOES = 200
"""So many vectors of each size are stored in the program's own batches, to be timed."""
MEBI = 1024 * 1024

PAGE = """# How memory grows

`make bench-growth` measures anew and writes this page; don't edit it. The times are those of the process that
recalls (memory's worker), which runs beside the one that serves; storing is what the serving process does.
Vectors are made afterwards, at low priority, and cost about 20 ms of CPU for a text of 128 tokens. Here they
are made up: those of {pool} sentences by the real model, each with noise. What storing a vector takes is
measured in batches of eight, as the program makes them. The question is embedded by the real model each time.

![Recall](memory-growth-recall.svg)

![Storing](memory-growth-storing.svg)

![Bytes](memory-growth-bytes.svg)

{table}

{facts}
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One size."""

    passages: int
    recall_ms: float
    recall_late_ms: float
    recall_cpu_ms: float
    text_cpu_ms: float
    store_ms: float
    store_cpu_ms: float
    vector_ms: float
    vector_cpu_ms: float
    database: int
    codes: int
    own_memory: int
    """What the recalling process holds for itself; mapped files are not in it."""


def timed(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


class PoolVectors:
    """The real model for a question, and vectors like its own for what is stored."""

    def __init__(self, speech: Speech) -> None:
        import numpy as np

        self._minilm = MiniLM()
        self.model = self._minilm.model
        self._random = np.random.default_rng(1)
        self._pool = self._minilm.embed([speech.sentence(10) for _ in range(POOL)])

    def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
        return self._minilm.embed(texts) if len(texts) == 1 else self.made(len(texts))

    def made(self, count: int) -> Any:  # noqa: ANN401 - a numpy matrix
        import numpy as np

        chosen = self._pool[self._random.integers(len(self._pool), size=count)]
        noise = self._random.standard_normal(chosen.shape, dtype=np.float32)
        rows = chosen + NOISE / chosen.shape[1] ** 0.5 * noise
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def add_vectors(path: Path, embedder: PoolVectors) -> None:
    """Store vectors of all passages but the last, many at a time."""
    store = PassageStore(str(path), clock=SystemClock())
    index = VectorIndex(store, embedder.model)
    while (left := store.count_without_vector() - AS_THE_PROGRAM_DOES) > 0:
        waiting = store.without_vector(min(left, VECTORS_AT_ONCE))
        index.add([(passage_id, text) for passage_id, _, text in waiting], embedder.made(len(waiting)))
        index.refresh()
    store.close()


def grow(path: Path, sizes: Sequence[int], say: Callable[[str], None]) -> list[Measured]:
    """Fill one file step by step, and measure at each size."""
    speech, results, filled = Speech(), list[Measured](), 0
    embedder = PoolVectors(speech)
    for size in sizes:
        say(f"storing up to {size:,}")
        memory = LocalMemory(path, clock=SystemClock(), embedder=None)
        taken = []
        while filled < size:
            turns = [made_turn(number, speech) for number in range(filled, min(filled + BATCH, size))]
            taken.append((len(turns), *timed(partial(memory.sync_turns, turns))))
            filled += len(turns)
        memory.shutdown()
        say("vectors")
        add_vectors(path, embedder)
        memory = LocalMemory(path, clock=SystemClock(), embedder=embedder)
        vectors = [timed(memory.build_vectors) for _ in range(AS_THE_PROGRAM_DOES // AT_ONCE)]
        memory.warm_up()
        say("asking")
        questions = [f"What did I say about the {speech.sentence(5)}?" for _ in range(QUESTIONS)]
        text = [timed(partial(memory.search, each, 20, mode="text")) for each in questions]
        whole = [timed(partial(memory.prefetch, each)) for each in questions]
        last = taken[-max(1, len(taken) // 4) :]
        stored = sum(count for count, _, _ in last)
        results.append(
            Measured(
                size,
                median(wall for wall, _ in whole),
                quantiles([wall for wall, _ in whole], n=20)[-1],
                median(cpu for _, cpu in whole),
                median(cpu for _, cpu in text),
                sum(wall for _, wall, _ in last) / stored,
                sum(cpu for _, _, cpu in last) / stored,
                median(wall for wall, _ in vectors) / AT_ONCE,
                median(cpu for _, cpu in vectors) / AT_ONCE,
                path.stat().st_size,
                path.with_name(f"{path.name}-codes").stat().st_size,
                memory_kib(os.getpid(), "Anonymous") * 1024,
            )
        )
        memory.shutdown()
        say(str(results[-1]))
    return results


def table(results: Sequence[Measured]) -> str:
    head = (
        "passages | recall, median (95th) | goal | CPU | of it full text | storing a passage | CPU "
        "| storing a vector | CPU | database | codes | recalling process"
    )
    lines = [f"| {head} |", "|---" * 12 + "|"]
    for each in results:
        goal = GOALS_MS.get(each.passages)
        met = "" if goal is None else f"< {goal} ms: {'met' if each.recall_ms < goal else '**missed**'}"
        lines.append(
            f"| {each.passages:,} | {each.recall_ms:.1f} ms ({each.recall_late_ms:.1f}) | {met} "
            f"| {each.recall_cpu_ms:.1f} ms | {each.text_cpu_ms:.1f} ms | {each.store_ms:.2f} ms "
            f"| {each.store_cpu_ms:.2f} ms | {each.vector_ms:.2f} ms | {each.vector_cpu_ms:.2f} ms "
            f"| {each.database / MEBI:.1f} MB | {each.codes / MEBI:.1f} MB "
            f"| {each.own_memory / MEBI:.0f} MB |"
        )
    return "\n".join(lines)


def pictures(results: Sequence[Measured]) -> dict[str, str]:
    def curve(name: str, value: Callable[[Measured], float]) -> Curve:
        return Curve(name, [(each.passages, value(each)) for each in results])

    return {
        "recall": picture(
            "One recall",
            "ms",
            [
                curve("time, median", lambda each: each.recall_ms),
                curve("CPU", lambda each: each.recall_cpu_ms),
                curve("CPU of full text", lambda each: each.text_cpu_ms),
            ],
        ),
        "storing": picture(
            "Storing",
            "ms",
            [
                curve("a passage, time", lambda each: each.store_ms),
                curve("a passage, CPU", lambda each: each.store_cpu_ms),
                curve("a vector, time", lambda each: each.vector_ms),
                curve("a vector, CPU", lambda each: each.vector_cpu_ms),
            ],
        ),
        "bytes": picture(
            "Size",
            "MB",
            [
                curve("database", lambda each: each.database / MEBI),
                curve("codes, mapped", lambda each: each.codes / MEBI),
                curve("own memory", lambda each: each.own_memory / MEBI),
            ],
        ),
    }


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory_growth", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="passages at the end")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the page and its pictures")
    chosen = parser.parse_args(arguments)
    limit_memory()  # as in the worker
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as folder:
        results = grow(Path(folder) / "memory.db", [size for size in SIZES if size <= chosen.most], say)
    facts = f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end."
    print(f"{table(results)}\n\n{facts}")
    if chosen.write is not None:
        for name, drawn in pictures(results).items():
            (chosen.write / f"memory-growth-{name}.svg").write_text(drawn, encoding="utf-8")
        page = PAGE.format(table=table(results), facts=facts, pool=POOL)
        (chosen.write / "memory-growth.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
