"""A large store moved from SQLite to PostgreSQL and back, with the time and the check of each way.

python -m bench.store_move [MESSAGES]     1,000,000 unless told; starts a PostgreSQL of its own, with fsync on

The store is filled row by row in the tables, as conversations of a hundred messages would have left it: each
turn has a question and an answer of about 300 characters. Then `holdfast store move` moves it. Before and
after each way all messages are read here by plain SQL, counted and summed, and the new store is checked for
soundness. It ends with 1 when a message is not as it was.
"""

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path

import psycopg

from bench.durability import durability
from bench.texts import Texts
from holdfast.core.clock import SystemClock
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Transaction
from holdfast.sessions.sqlite import SqliteEngine
from tests.postgres_server import DURABLE, server_url
from tests.sessions.databases import PostgresPlace

MESSAGES = 1_000_000
PER_SESSION = 100
CHARACTERS = 300
TEXTS = 2_000
FOLDERS = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
MESSAGE_ROWS = "select session_id, seq, turn_id, role, content, extra, created from messages"
HEAD = "| way | messages | time | of which | sum of the messages | the new store |\n|---|---|---|---|---|---|"
BATCH_SESSIONS = 50


def fill(engine: SqliteEngine, messages: int) -> None:
    """So many messages, in conversations with completed turns."""
    made = Texts()
    texts = [made.text(CHARACTERS) for _ in range(TEXTS)]
    sessions = range(messages // PER_SESSION)
    for start in range(0, len(sessions), BATCH_SESSIONS):
        part = sessions[start : start + BATCH_SESSIONS]
        engine.write(partial(_add, sessions=part, texts=texts))


def _add(tx: Transaction, sessions: range, texts: list[str]) -> None:
    add = tx.dialect.bulk.add_rows
    add(
        tx,
        "sessions",
        ("id", "source", "started", "generation"),
        [(f"s{each:07}", "bench", each, PER_SESSION // 2) for each in sessions],
    )
    turns = [(each, number) for each in sessions for number in range(PER_SESSION // 2)]
    add(
        tx,
        "turns",
        ("id", "session_id", "state", "started", "ended", "generation"),
        [(f"t{at:07}-{number}", f"s{at:07}", "completed", at, at, number + 1) for at, number in turns],
    )
    columns = ("session_id", "seq", "turn_id", "role", "content", "created")
    add(tx, "messages", columns, list(_messages(turns, texts)))


def _messages(turns: list[tuple[int, int]], texts: list[str]) -> Iterator[tuple[object, ...]]:
    for at, number in turns:
        for place, role in ((2 * number, "user"), (2 * number + 1, "assistant")):
            text = texts[(at * 31 + place) % TEXTS]
            yield f"s{at:07}", place, f"t{at:07}-{number}", role, f"{place} {text}", at


def summed(rows: Iterable[tuple[object, ...]]) -> tuple[int, int]:
    """How many rows there are, and a sum that is the same in whatever order they are read."""
    count = total = 0
    for row in rows:
        said = repr(tuple(str(each) for each in row)).encode()
        count, total = count + 1, (total + int.from_bytes(sha256(said).digest()[:16])) % 2**128
    return count, total


def in_sqlite(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        return summed(connection.execute(MESSAGE_ROWS))


def in_postgres(url: str) -> tuple[int, int]:
    with psycopg.connect(url) as connection, connection.cursor("rows") as cursor:
        cursor.itersize = 10_000
        return summed(cursor.execute(MESSAGE_ROWS.encode()))


def moved(source: str, target: str, home: Path) -> str:
    """Run the command; its time, and that of its stages."""
    began = since = time.monotonic()
    stage, stages = "copying", {"copying": 0.0, "checking": 0.0, "search index": 0.0}
    environment = {**os.environ, **{name: str(home) for name in FOLDERS}}
    with (
        (home / "said").open("w+") as said,
        subprocess.Popen(
            [sys.executable, "-m", "holdfast", "store", "move", source, target],
            env=environment,
            stdout=said,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stderr is not None  # noqa: S101 - asked for
        last = ""
        for last in process.stderr:
            moment = time.monotonic()
            stages[stage] += moment - since
            stage = next((each for each in ("checking", "search index") if last.startswith(each)), "copying")
            since = moment
        if process.wait():
            raise RuntimeError(f"holdfast store move: {last}")
        ended = time.monotonic()
        stages[stage] += ended - since
        said.seek(0)
        sys.stderr.write(said.read())
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in stages.items())
    return f"{ended - began:.0f} s | {parts}"


def soundness(url: str) -> str:
    with SessionDB.open(url, patience=60.0) as db:
        problems = db.check()
    return "sound" if not problems else f"NOT SOUND: {problems[:3]}"


def main() -> int:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-move-", dir="/var/tmp") as name,
        server_url(*DURABLE) as server,
    ):
        home, place = Path(name), PostgresPlace(server)
        first, back = home / "first.db", home / "back.db"
        engine = SqliteEngine(str(first), clock=SystemClock(), patience=60.0)
        with SessionDB.on(engine):
            fill(engine, messages)
        sums = [in_sqlite(first)]
        print(HEAD)
        verdicts = []
        for way, source, target, read in (
            ("SQLite to PostgreSQL", f"sqlite:///{first}", place.url, partial(in_postgres, place.url)),
            ("PostgreSQL to SQLite", place.url, f"sqlite:///{back}", partial(in_sqlite, back)),
        ):
            times = moved(source, target, home)
            sums.append(read())
            count, total = sums[-1]
            verdicts.append(soundness(target))
            print(f"| {way} | {count:,} | {times} | {total:032x} | {verdicts[-1]} |", flush=True)
        print(f"\nBefore: {sums[0][0]:,} messages, sum {sums[0][1]:032x}. {durability(place.url)}.")
        place.drop()
    good = len(set(sums)) == 1 and sums[0][0] == messages and set(verdicts) == {"sound"}
    print("the same after both ways" if good else "NOT THE SAME after both ways")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
