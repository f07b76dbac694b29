"""`python -m bench.memory_growth`: how the local memory grows, from 1,000 to 1,000,000 passages.

python -m bench.memory_growth                        print the numbers
python -m bench.memory_growth --write docs           and write docs/memory-growth.md with its pictures
python -m bench.memory_growth --most 100000          stop earlier (3 minutes; the whole: 45)

Texts are made of real-looking words; their vectors are random, because a million real ones take hours and
change nothing in the time to compare them. The question is embedded by the real model.
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

from bench.curves import Curve, picture
from bench.recall_latency import RandomVectors, Speech, made_turn
from bench.web import memory_kib
from holdfast.core.clock import SystemClock
from holdfast.providers.local import LocalMemory
from holdfast.providers.local.worker import limit_memory

SIZES = (1_000, 10_000, 100_000, 1_000_000)
GOALS_MS = {100_000: 20, 1_000_000: 60}
QUESTIONS = 100
BATCH = 200
MEBI = 1024 * 1024

PAGE = """# How memory grows

`make bench-growth` measures anew and writes this page; don't edit it. The times are those of the process that
recalls (memory's worker), which runs beside the one that serves; storing is what the serving process does.
Vectors are made afterwards, at low priority, and cost about 20 ms of CPU for a text of 128 tokens.

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
    database: int
    codes: int
    own_memory: int
    """What the recalling process holds for itself; mapped files are not in it."""


def timed(call: Callable[[], object]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000


def grow(path: Path, sizes: Sequence[int], say: Callable[[str], None]) -> list[Measured]:
    """Fill one file step by step, and measure at each size."""
    speech, results, filled = Speech(), list[Measured](), 0
    embedder = RandomVectors()
    for size in sizes:
        say(f"storing up to {size:,}")
        memory = LocalMemory(path, clock=SystemClock(), embedder=None)
        taken = []
        while filled < size:
            turns = [made_turn(number, speech) for number in range(filled, min(filled + BATCH, size))]
            taken.append((len(turns), *timed(partial(memory.sync_turns, turns))))
            filled += len(turns)
        memory.shutdown()
        memory = LocalMemory(path, clock=SystemClock(), embedder=embedder)
        say("vectors")
        while memory.build_vectors():
            pass
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
        "| database | codes | recalling process"
    )
    lines = [f"| {head} |", "|---" * 10 + "|"]
    for each in results:
        goal = GOALS_MS.get(each.passages)
        met = "" if goal is None else f"< {goal} ms: {'met' if each.recall_ms < goal else '**missed**'}"
        lines.append(
            f"| {each.passages:,} | {each.recall_ms:.1f} ms ({each.recall_late_ms:.1f}) | {met} "
            f"| {each.recall_cpu_ms:.1f} ms | {each.text_cpu_ms:.1f} ms | {each.store_ms:.2f} ms "
            f"| {each.store_cpu_ms:.2f} ms | {each.database / MEBI:.1f} MB | {each.codes / MEBI:.1f} MB "
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
            "Storing one passage",
            "ms",
            [curve("time", lambda each: each.store_ms), curve("CPU", lambda each: each.store_cpu_ms)],
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
        page = PAGE.format(table=table(results), facts=facts)
        (chosen.write / "memory-growth.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
