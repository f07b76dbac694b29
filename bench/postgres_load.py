"""PostgreSQL under load, beside SQLite in one run: N chats at once, turns a second by nodes, wake-ups, costs.

python -m bench.postgres_load [--quick]     starts PostgreSQL servers of its own

Both stores have the settings that users get, memory on, and wait for the disk at each commit. The model
streams 100 tokens in 2 s; for turns a second it streams them at once. CPU is that of the serving process, or
of all workers. SQLite is served by one process, however many workers PostgreSQL has.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.durability import durability
from bench.nodes import node_rows
from bench.rounds import FULL, QUICK, Scale
from bench.table import Row, number, render
from bench.turn_cost import cost_rows, measure
from bench.web import LATE_SECONDS, ROUNDS, Seen, await_worker, holdfast_web, load, paced_model
from tests.postgres_server import DURABLE, own_server

LOADS = ((200, 1), (500, 2))
"""Chats at once, and workers that serve them on PostgreSQL."""
MOST_CPU = 2.0
"""How many times SQLite's CPU a chat may take."""
NODES = (1, 2, 4)
TURNS = 200
CLIENTS_START = 3.0
"""Seconds that the load's clients have to start, before all begin at once."""


def postgres_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """Everything about PostgreSQL."""
    is_quick = scale is QUICK
    for chats, workers in LOADS:
        yield from beside_sqlite_rows(folder, 2 if is_quick else chats, 1 if is_quick else ROUNDS, workers)
    yield from rate_rows(folder, (1,) if is_quick else NODES, 4 if is_quick else TURNS)
    yield from node_rows(1) if is_quick else node_rows()
    with_memory, without = (
        measure(2 if is_quick else 10, 1 if is_quick else 3, way) for way in ("local", "")
    )
    yield from cost_rows(with_memory, without)


def beside_sqlite_rows(folder: Path, chats: int, rounds: int, workers: int) -> Iterator[Row]:
    """The same load on both stores, in turns."""
    seen: dict[str, list[Seen]] = {"sqlite": [], "postgres": []}
    spent: dict[str, list[float]] = {"sqlite": [], "postgres": []}
    directs = []
    with ExitStack() as stack:
        model = stack.enter_context(paced_model())
        url = stack.enter_context(own_server(*DURABLE)).url
        said = durability(url)
        servers = {
            name: stack.enter_context(
                holdfast_web(folder / f"load-{workers}-{name}", model, "local", store, count)
            )
            for name, store, count in (("sqlite", "", 1), ("postgres", url, workers))
        }
        for server in servers.values():
            load("api", server.port, max(1, chats // 10))  # imports, connections, prepared statements
            await_worker(server)
        for _ in range(rounds):
            directs.append(load("direct", model, chats))
            for name, server in servers.items():
                before = server.cpu()
                seen[name].append(load("api", server.port, chats))
                spent[name].append((server.cpu() - before) / chats * 1000)
    direct = median(each.first for each in directs)
    firsts = {name: median(each.first for each in found) for name, found in seen.items()}
    cpu = {name: median(found) for name, found in spent.items()}
    served = "" if workers == 1 else f" with {workers} workers"
    what = f"{chats} chats at once on PostgreSQL{served} (control: on SQLite)"
    yield Row(
        f"{what}: median time to the first token after the model's",
        f"+{firsts['sqlite'] - direct:.2f} s",
        f"+{firsts['postgres'] - direct:.2f} s",
        "",
        goal=f"+{LATE_SECONDS} s",
        met=firsts["postgres"] - direct <= LATE_SECONDS,
    )
    ratio = cpu["postgres"] / cpu["sqlite"]
    yield Row(
        f"{what}: CPU of the serving process{'' if workers == 1 else 'es'} for each chat",
        f"{number(cpu['sqlite'])} ms",
        f"{number(cpu['postgres'])} ms",
        f"{ratio:.2f}",
        goal=f"≤ {MOST_CPU:g}",
        met=ratio <= MOST_CPU,
    )
    complete = {name: min(each.complete for each in found) for name, found in seen.items()}
    yield Row(
        f"{what}: complete",
        f"{complete['sqlite']}",
        f"{complete['postgres']}",
        "",
        goal="all",
        met=complete["postgres"] == chats,
    )
    yield Row(f"{what}: the server", "", said, "")


def rate_rows(folder: Path, nodes: tuple[int, ...], turns: int) -> Iterator[Row]:
    """Turns a second by several servers on one PostgreSQL, from the first chat's start to the last one's end.

    Each server has a client of its own, which gets its share of the turns; all clients begin at once.
    """
    for count in nodes:
        with ExitStack() as stack:
            model = stack.enter_context(paced_model(0.0))
            url = stack.enter_context(own_server(*DURABLE)).url
            ports = [
                stack.enter_context(holdfast_web(folder / f"rate-{count}-{each}", model, "local", url)).port
                for each in range(count)
            ]
            pool = stack.enter_context(ThreadPoolExecutor(count))
            list(pool.map(lambda port: load("api", port, 2), ports))  # what the first request imports
            at = time.perf_counter() + CLIENTS_START
            found = list(pool.map(load, ["api"] * count, ports, [turns // count] * count, [at] * count))
            taken = max(each.ended for each in found) - min(each.began for each in found)
        done = sum(each.complete for each in found)
        said = f"{number(done / taken)} /s"
        yield Row(
            f"turns a second on PostgreSQL by {count} {'node' if count == 1 else 'nodes'}, {turns} at once",
            "",
            said,
            "",
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as name:
        rows = []
        for each in postgres_rows(Path(name), QUICK if "--quick" in sys.argv else FULL):
            print("  ".join(cell for cell in each.cells() if cell), file=sys.stderr, flush=True)
            rows.append(each)
    print(render(rows))
