"""A large store moved from SQLite to PostgreSQL and back, with the time and the check of each way.

python -m bench.store_move [MESSAGES]     1,000,000 unless told; starts a PostgreSQL of its own

The store is filled row by row in the tables, as conversations of a hundred messages would have left it: each
turn has a question and an answer of about 300 characters. Then `SessionDB.move_to` does what the command
does. After each way the rows are compared by count and sum, which the move does itself, and the store is
checked for soundness.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.texts import Texts
from holdfast.core.clock import SystemClock
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Transaction
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.sqlite import SqliteEngine
from tests.postgres_server import server_url
from tests.sessions.databases import PostgresPlace

MESSAGES = 1_000_000
PER_SESSION = 100
CHARACTERS = 300
TEXTS = 2_000
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


def timed(what: str, source: SessionDB, target: SessionDB) -> str:
    began, stages = time.monotonic(), {"copying": 0.0, "checking": 0.0, "search index": 0.0}
    stage, since = "copying", began

    def tell(now: str, *_: int) -> None:
        nonlocal stage, since
        moment = time.monotonic()
        stages[stage] += moment - since
        stage = next((each for each in ("checking", "search index") if now.startswith(each)), "copying")
        since = moment

    moved = source.move_to(target, tell)
    ended = time.monotonic()
    stages[stage] += ended - since
    rows, messages = sum(each.count for each in moved.values()), moved["messages"]
    problems = target.check()
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in stages.items())
    sound = "sound" if not problems else f"NOT SOUND: {problems[:3]}"
    return (
        f"| {what} | {messages.count:,} of {rows:,} rows | {ended - began:.0f} s | {parts} "
        f"| {messages.sum:032x} | {sound} |"
    )


def main() -> int:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES
    with tempfile.TemporaryDirectory(prefix="holdfast-move-") as folder, server_url() as server:
        place = PostgresPlace(server)
        engine = SqliteEngine(str(Path(folder) / "first.db"), clock=SystemClock(), patience=60.0)
        last = SqliteEngine(str(Path(folder) / "last.db"), clock=SystemClock(), patience=60.0)
        with (
            SessionDB.on(engine) as first,
            SessionDB.on(PostgresEngine(place.url, patience=60.0)) as middle,
            SessionDB.on(last) as back,
        ):
            fill(engine, messages)
            print(HEAD)
            rows = [timed("SQLite to PostgreSQL", first, middle)]
            print(rows[0], flush=True)
            rows.append(timed("PostgreSQL to SQLite", middle, back))
            print(rows[1])
        place.drop()
    return 0 if all(row.endswith("| sound |") for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
