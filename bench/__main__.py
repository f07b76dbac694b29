"""`python -m bench`: measure everything, print the table, and write it into the docs if asked.

python -m bench                              about four minutes, 200,000 messages
python -m bench --write docs/benchmarks.md   the same, kept as a page
python -m bench --quick                      a few seconds: whether it runs, not how fast
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.appending import Bout, full_rows, level_rows, single_rows, thread_rows, worst_rows
from bench.commands import command_rows
from bench.events import event_rows
from bench.growth import growth_rows
from bench.holographic import holographic_rows
from bench.memory import memory_rows
from bench.postgres_load import postgres_rows
from bench.processes import process_rows
from bench.reading import load_rows, search_rows, size_rows
from bench.rounds import FULL, MILLI, QUICK, Scale
from bench.stores import size
from bench.surfaces import surface_rows
from bench.table import PAGE, Row, facts, filesystem, render
from bench.texts import Texts
from bench.turns import turn_rows
from bench.web import web_rows

PAGE_BYTES = 4096
DISK = Path("/var/tmp")  # noqa: S108 - on disk, where /tmp is often in memory


def all_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """Every measurement, from the empty database to the full one."""
    bout = Bout(folder, scale, Texts())
    say("appends on an empty database")
    levels = {0: bout.single(scale.rounds)}
    yield from single_rows(levels[0])
    say("threads")
    yield from thread_rows(bout)
    say("processes")
    yield from process_rows(folder, scale)
    for step in range(1, scale.levels + 1):
        total = scale.messages * step // scale.levels
        say(f"filling to {total:,} messages")
        bout.fill(total)
        levels[total] = bout.single(max(2, scale.rounds // 2))
    say("reads")
    yield from load_rows(bout)
    yield from search_rows(bout)
    say("the slowest append")
    yield from worst_rows(bout.worst(), bout.filled)
    yield from level_rows(levels)
    say("a full database beside an empty one")
    beside = folder / "empty"
    beside.mkdir()
    empty = Bout(beside, scale, Texts())
    yield from full_rows(empty, bout)
    empty.close()
    say("memory")
    yield from memory_rows(folder, scale)
    say("facts")
    yield from holographic_rows(folder, scale.facts, say)
    say("turns")
    yield from turn_rows(folder, scale)
    say("events")
    yield from event_rows(folder, scale)
    say("commands")
    yield from command_rows(folder, scale)
    say("start-up and the host")
    yield from surface_rows(folder, scale)
    say("the web surface")
    os.sync()  # what the parts before left to be written is not paid for here
    yield from web_rows(folder, scale)
    say("PostgreSQL")
    yield from postgres_rows(folder, scale)
    say("a server after thousands of chats")
    yield from growth_rows(folder, scale)
    say("sizes")
    bout.settle()
    bout.close()
    yield from size_rows(size(bout.control.path), size(bout.holdfast.path))


def fsync_cost(folder: Path) -> tuple[float, float]:
    """Median and worst of syncing one page, in milliseconds."""
    taken = []
    file = os.open(folder / "fsync", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        for _ in range(100):
            os.pwrite(file, os.urandom(PAGE_BYTES), 0)
            begun = time.perf_counter()
            os.fsync(file)
            taken.append((time.perf_counter() - begun) * MILLI)
    finally:
        os.close(file)
    return median(taken), max(taken)


def say(what: str) -> None:
    """Progress goes to the side, so that the output is the table alone."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the result as a page")
    parser.add_argument("--folder", type=Path, default=DISK, help=f"where to make the files (default {DISK})")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=chosen.folder) as name:
        folder = Path(name)
        if filesystem(folder) == "tmpfs":
            say(f"{folder} is in memory: fsync costs nothing there; choose another --folder")
        fsync = fsync_cost(folder)
        rows = []
        for row in all_rows(folder, QUICK if chosen.quick else FULL):
            say(f"{row.what}: {row.control}, {row.holdfast}, ratio {row.ratio}")
            rows.append(row)
        told = facts(folder, fsync, fsync_cost(folder))
    table = render(rows)
    print(f"{told}\n\n{table}")
    if chosen.write is not None:
        chosen.write.write_text(PAGE.format(facts=told, table=table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
