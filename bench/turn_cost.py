"""What one turn costs PostgreSQL: statements, round trips, bytes on the wire, WAL and bytes on disk.

python -m bench.turn_cost [--chats 10] [--rounds 3] [--statements]     starts a PostgreSQL of its own

`holdfast web` runs with the settings that users get, memory on, behind a proxy that counts (`bench/wire.py`);
then the same without memory. Each chat is a new conversation with one turn: a message, 100 tokens in 2 s, one
delivery to memory. The server has fsync and full_page_writes on, as users have it, and the turns begin right
after a checkpoint, when the first change of each page writes the whole page into the WAL: with fewer turns
between two checkpoints than here a turn has more of these page images, with many turns next to none.
What the server does while nobody speaks is measured first, and taken off. A second table says which
transactions that was, by the queries that each of them asks, a third what each query writes.
`--statements` prints the most frequent as the server counted them.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from bench.durability import durability
from bench.table import Row, markdown_table, number, render
from bench.web import await_worker, cpu_seconds, holdfast_web, load, paced_model
from bench.wire import CountingProxy, Kind, Traffic, counting_proxy, label
from tests.postgres_server import DURABLE, PostgresServer, own_server

IDLE_SECONDS = 10.0
TABLES = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0) from pg_class c
 where relkind = 'r' and relnamespace = 'public'::regnamespace
"""
WAL = "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
IMAGES = "select wal_fpi from pg_stat_wal"
MOST = """
select calls, rows, round(total_exec_time::numeric, 1), regexp_replace(left(query, 110), '\\s+', ' ', 'g')
  from statistics.pg_stat_statements order by calls desc limit 45
"""
WRITERS = "select query, calls, wal_bytes from statistics.pg_stat_statements where wal_bytes > 0"
FEWEST = 0.05
"""Transactions that fewer turns have than one in twenty are left out of the table."""
WAYS = {"local": "with memory", "": "without memory"}


@dataclass(frozen=True, slots=True)
class Reading:
    """All counters at one moment."""

    at: float
    traffic: Traffic
    wal: int
    images: int
    commits: int
    server_cpu: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What one turn, or one idle second, took."""

    statements: float
    round_trips: float
    transactions: float
    sent: float
    received: float
    wal: float
    images: float
    server_cpu: float


class Meter:
    """Reads the counters of the proxy and of the server."""

    def __init__(self, proxy: CountingProxy, url: str, postmaster: int) -> None:
        self._proxy = proxy
        self._url = url
        self._connection = psycopg.connect(url, autocommit=True)
        self._postmaster = postmaster

    def read(self) -> Reading:
        # The server adds up what connections did up to a second later.
        time.sleep(1.5)
        (commits,) = self._one(
            "select xact_commit + xact_rollback from pg_stat_database where datname = current_database()"
        )
        wal, images = (int(self._one(query)[0]) for query in (WAL, IMAGES))
        return Reading(time.monotonic(), self._proxy.traffic.copy(), wal, images, int(commits), self._cpu())

    def disk(self) -> int:
        return int(self._one(TABLES)[0])

    def most_often(self) -> list[tuple[object, ...]]:
        return self._connection.execute(MOST.encode()).fetchall()

    def writers(self) -> dict[str, tuple[int, int]]:
        """How often each query ran, and its bytes of WAL."""
        found: dict[str, tuple[int, int]] = {}
        for query, calls, wal in self._connection.execute(WRITERS):
            before = found.get(name := label(query), (0, 0))
            found[name] = before[0] + int(calls), before[1] + int(wal)
        return found

    def durability(self) -> str:
        return durability(self._url)

    def begin_anew(self) -> None:
        """Forget what statements were run, and let every page be written whole once more."""
        self._connection.execute("select statistics.pg_stat_statements_reset()")
        self._connection.execute("checkpoint")

    def close(self) -> None:
        self._connection.close()

    def _one(self, query: str) -> tuple[Any, ...]:
        row = self._connection.execute(query.encode()).fetchone()
        assert row is not None  # noqa: S101 - each has one
        return row

    def _cpu(self) -> float:
        """Of the server with all its children, those that have ended too."""
        fields = Path(f"/proc/{self._postmaster}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ended = (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
        children = Path(f"/proc/{self._postmaster}/task/{self._postmaster}/children")
        return ended + sum(map(cpu_seconds, map(int, children.read_text(encoding="ascii").split())))


def spent(before: Reading, after: Reading, parts: float, idle: Cost | None = None) -> Cost:
    """Divided by so many parts, without what the same time costs when nothing happens."""
    traffic, seconds = after.traffic.since(before.traffic), after.at - before.at
    totals = (
        traffic.statements,
        traffic.round_trips,
        after.commits - before.commits,
        traffic.sent,
        traffic.received,
        after.wal - before.wal,
        after.images - before.images,
        after.server_cpu - before.server_cpu,
    )
    quiet = [0.0] * len(totals) if idle is None else [getattr(idle, name) for name in Cost.__slots__]
    both = zip(totals, quiet, strict=True)
    return Cost(*(max(0.0, total - seconds * each) / parts for total, each in both))


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found: for a second without a turn, and for a turn."""

    idle: Cost
    turn: Cost
    disk: float
    seconds: float
    turns: int
    idle_kinds: dict[str, Kind]
    """What transactions cost in `IDLE_SECONDS` without a turn, by what they ask."""
    kinds: dict[str, Kind]
    """The same for all turns and the time that they took."""
    writers: dict[str, tuple[int, int]]
    most_often: list[tuple[object, ...]]
    server: str
    """Which server it was, and whether it keeps what it has confirmed."""


def measure(chats: int, rounds: int, providers: str = "local") -> Measured:
    """A fresh server, a fresh store, `holdfast web` in front of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-", dir="/var/tmp")))
        server = stack.enter_context(own_server(*DURABLE))
        postmaster = with_statistics(server)
        proxy = stack.enter_context(counting_proxy("127.0.0.1", server.port))
        store = server.url.replace(f":{server.port}/", f":{proxy.port}/")
        model = stack.enter_context(paced_model())
        web = stack.enter_context(holdfast_web(folder / "home", model, providers, store))
        meter = stack.enter_context(closing(Meter(proxy, server.url, postmaster)))
        load("api", web.port, chats)  # connections are made, statements prepared, the worker is loaded
        await_worker(web)
        return _measured(meter, web.port, chats, rounds)


def _measured(meter: Meter, port: int, chats: int, rounds: int) -> Measured:
    before = meter.read()
    time.sleep(IDLE_SECONDS)
    after = meter.read()
    idle = spent(before, after, after.at - before.at)
    meter.begin_anew()
    disk, begun = meter.disk(), meter.read()
    started = time.monotonic()
    for _ in range(rounds):
        load("api", port, chats)
    seconds = time.monotonic() - started
    done, turns = meter.read(), chats * rounds
    return Measured(
        idle,
        spent(begun, done, turns, idle),
        (meter.disk() - disk) / turns,
        seconds,
        turns,
        after.traffic.since(before.traffic).kinds,
        done.traffic.since(begun.traffic).kinds,
        meter.writers(),
        meter.most_often(),
        meter.durability(),
    )


def with_statistics(server: PostgresServer) -> int:
    """Start it again with pg_stat_statements; its process id."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("alter system set shared_preload_libraries = 'pg_stat_statements'")
    server.stop()
    server.start()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create schema statistics; create extension pg_stat_statements schema statistics")
    lines = (server.folder / "data" / "postmaster.pid").read_text(encoding="ascii").splitlines()
    return int(lines[0])


WHAT = {
    "statements": "statements, with begin and commit",
    "round_trips": "round trips",
    "transactions": "transactions",
    "sent": "bytes sent to the server",
    "received": "bytes received",
    "wal": "bytes of WAL, with the page images after a checkpoint",
    "images": "page images in it",
    "server_cpu": "ms of the server's CPU",
}


def cost_rows(found: Measured, without: Measured | None = None) -> Iterator[Row]:
    """What a turn takes; `without` is the same without memory."""
    for name, what in WHAT.items():
        factor = 1000 if name == "server_cpu" else 1
        turn, idle = getattr(found.turn, name) * factor, getattr(found.idle, name) * factor
        beside = "" if without is None else f"{number(getattr(without.turn, name) * factor)} without memory; "
        said = f"{beside}{number(idle)} in a second without a turn"
        yield Row(f"a turn on PostgreSQL: {what}", "", number(turn), "", said)
    yield Row("a turn on PostgreSQL: bytes on disk, with indexes", "", number(found.disk), "")
    yield Row("a turn on PostgreSQL: the server", "", found.server, "")


def kinds_table(found: Measured) -> str:
    """Which transactions a turn has."""
    heads = ("transaction", "for a turn", "round trips", "statements", "sent", "received", "idle, /s")
    lines = []
    for name, kind in found.kinds.items():
        idle = found.idle_kinds.get(name, Kind()).transactions / IDLE_SECONDS
        if kind.transactions >= FEWEST * found.turns or idle:
            numbers = (kind.transactions, kind.round_trips, kind.statements, kind.sent, kind.received)
            lines.append(
                (kind.round_trips, (name, *(number(each / found.turns) for each in numbers), number(idle)))
            )
    return markdown_table(heads, [line for _, line in sorted(lines, key=lambda each: -each[0])])


def writers_table(found: Measured) -> str:
    """Which queries write, and how much WAL that is for a turn."""
    ordered = sorted(found.writers.items(), key=lambda each: -each[1][1])
    lines = [
        (name, number(calls / found.turns), number(wal / found.turns))
        for name, (calls, wal) in ordered
        if wal
    ]
    return markdown_table(("query", "for a turn", "bytes of WAL"), lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What one turn costs PostgreSQL.")
    parser.add_argument("--chats", type=int, default=10, help="how many at once")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--statements", action="store_true", help="print what was run most often")
    given = parser.parse_args()
    results = {said: measure(given.chats, given.rounds, providers) for providers, said in WAYS.items()}
    print(render(list(cost_rows(*results.values()))))
    for said, result in results.items():
        print(f"\nTransactions of a turn {said}:\n\n{kinds_table(result)}")
        print(f"\nWhat a turn writes {said}:\n\n{writers_table(result)}")
        if given.statements:
            for calls, rows, milliseconds, query in result.most_often:
                sys.stdout.write(f"{calls:>7} calls {rows:>7} rows {milliseconds:>8} ms  {query}\n")
