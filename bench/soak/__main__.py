"""The long run: servers that are killed and paused at random, people who go on talking, and then the books.

`python -m bench.soak --kills 200 --pauses 50` does it over SQLite and PostgreSQL at once, two servers each,
and prints a table. Every acknowledged message must be answered, closed with a word that says why, or taken
back by its own person, and none may be there twice; nobody tells a server to run anything. `--seed` repeats
the choices of a run.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.soak.people import Books, Person
from bench.soak.servers import Server, a_model
from holdfast.sessions import SessionDB
from tests.postgres_server import server_url
from tests.sessions.databases import PostgresPlace

SERVERS = 2
PEOPLE = 5
REST_WITHIN = 240.0
SHOWN = 10
INTERRUPTED = "the person interrupted"
CLOSED = "its process ended"


@dataclass(frozen=True)
class Plan:
    """What happens to the servers of one store."""

    kills: int
    pauses: int
    seconds: float
    """How long a pause lasts."""
    seed: int


async def torture(store_url: str, folder: Path, plan: Plan) -> Counter[str]:
    """One store: its servers, its people, and the books."""
    books, enough = Books(), asyncio.Event()
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(a_model())
        servers = []
        for number in range(SERVERS):
            home = folder / f"server-{number}"
            home.mkdir()
            servers.append(Server(home, store_url, model))
            stack.push_async_callback(servers[-1].end)
            stack.push_async_callback(servers[-1].http.aclose)
            await servers[-1].start()
        talking = [
            asyncio.create_task(Person(f"p{number}", plan.seed + number, servers, books).talk(enough))
            for number in range(PEOPLE)
        ]
        await asyncio.gather(*(_disturb(each, at, plan) for at, each in enumerate(servers)))
        enough.set()
        await asyncio.gather(*talking)
        with SessionDB.open(store_url) as db:
            rested = await _at_rest(db)
            return _audit(db, books, plan, rested)


async def _disturb(server: Server, at: int, plan: Plan) -> None:
    """One server's share of the kills and pauses, in an order of chance."""
    chance = random.Random(plan.seed * 1000 + at)  # noqa: S311 - it chooses a disturbance
    share = [len(range(at, count, SERVERS)) for count in (plan.kills, plan.pauses)]
    events = ["kill"] * share[0] + ["pause"] * share[1]
    chance.shuffle(events)
    for number, event in enumerate(events):
        print(f"server {server.port}: {number} of {len(events)}", file=sys.stderr)
        await asyncio.sleep(chance.uniform(0.5, 3.0))
        if event == "kill":
            await server.kill()
        else:
            await server.pause(plan.seconds)


async def _at_rest(db: SessionDB) -> float:
    """How long it takes, once all is quiet, until nothing waits and no turn is open; below 0: never."""
    began = time.monotonic()
    while db.inbox.sessions() or db.turns.unfinished():
        if time.monotonic() - began > REST_WITHIN:
            return -1.0
        await asyncio.sleep(0.25)
    return time.monotonic() - began


def _audit(db: SessionDB, books: Books, plan: Plan, rested: float) -> Counter[str]:
    found: Counter[str] = Counter(
        {"kills": plan.kills, "pauses": plan.pauses, "acknowledged": len(books.sent)}
    )
    found.update({f"asked: {what}": count for what, count in sorted(books.counts.items())})
    for inbox_id in books.sent:
        found[_fate(db, books, inbox_id)] += 1
    words = Counter(_said(db, books))
    found["doubled"] = sum(count > 1 for count in words.values())
    found["never in a transcript"] = sum(
        words[text] == 0 and _is_taken(db, inbox_id) for inbox_id, text in books.sent.items()
    )
    found["refused"] = len(books.refusals)
    for refusal in books.refusals[:SHOWN]:
        print(f"refused: {refusal}", file=sys.stderr)
    found["faults of the store"] = len(db.check())
    found["not at rest"] = len(db.inbox.sessions()) + len(db.turns.unfinished())
    found["seconds until at rest"] = round(rested)
    return found


def _fate(db: SessionDB, books: Books, inbox_id: int) -> str:
    """What became of a message."""
    message = db.inbox.get(inbox_id)
    if message is None:
        return "deleted by its person" if inbox_id in books.deleted else "LOST"
    if message.state == "withdrawn":
        return "withdrawn by its person"
    turn = db.turns.get(message.turn_id or "")
    if turn is None:
        return "STILL WAITING"
    reason = turn.reason or ""
    if turn.state == "completed":
        return "answered"
    if turn.state == "interrupted" and reason.startswith(INTERRUPTED):
        return "interrupted by its person"
    if turn.state == "interrupted" and reason.startswith(CLOSED):
        return "closed after a crash, with a word"
    return f"{turn.state.upper()}: {reason[:80]}"


def _is_taken(db: SessionDB, inbox_id: int) -> bool:
    message = db.inbox.get(inbox_id)
    return message is not None and message.state == "taken"


def _said(db: SessionDB, books: Books) -> Iterator[str]:
    """Every message of a person in a turn, as often as it is there."""
    for root in books.sessions:
        if db.get_session(root) is None:
            continue
        for session in db.sessions.lineage(root):
            for stored in db.sessions.read(session):
                if stored.message["role"] == "user" and stored.turn_id and not stored.carried:
                    yield str(stored.message["content"])


GOOD = {
    *("answered", "withdrawn by its person", "deleted by its person", "interrupted by its person"),
    "closed after a crash, with a word",
}


def is_sound(found: Counter[str]) -> bool:
    """Whether every acknowledged message came to a good end, and none twice."""
    fates = sum(count for what, count in found.items() if what in GOOD)
    faults = ("refused", "doubled", "never in a transcript", "faults of the store", "not at rest")
    return fates == found["acknowledged"] and not any(found[each] for each in faults)


@contextmanager
def stores(names: Sequence[str], folder: Path) -> Iterator[dict[str, str]]:
    """The addresses of fresh stores."""
    urls: dict[str, str] = {}
    if "sqlite" in names:
        urls["sqlite"] = f"sqlite:///{folder}/holdfast.db"
    if "postgres" not in names:
        yield urls
        return
    with server_url() as server:
        place = PostgresPlace(server)
        urls["postgres"] = place.url
        try:
            yield urls
        finally:
            place.drop()


async def run(names: Sequence[str], folder: Path, plan: Plan) -> dict[str, Counter[str]]:
    """All stores at once; each gets an equal share of the kills and pauses."""
    share = Plan(-(-plan.kills // len(names)), -(-plan.pauses // len(names)), plan.seconds, plan.seed)
    with stores(names, folder) as urls:
        work = []
        for name, url in urls.items():
            own = folder / name
            own.mkdir()
            work.append(torture(url, own, share))
        return dict(zip(urls, await asyncio.gather(*work), strict=True))


def table(results: dict[str, Counter[str]]) -> str:
    """What was found, a column for each store."""
    rows = list(dict.fromkeys(what for found in results.values() for what in found))
    head = f"| what | {' | '.join(results)} |\n|---|{'---|' * len(results)}"
    lines = [f"| {row} | {' | '.join(str(found[row]) for found in results.values())} |" for row in rows]
    return "\n".join([head, *lines])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--pauses", type=int, default=50)
    parser.add_argument("--pause-seconds", type=float, default=20.0)
    parser.add_argument("--stores", default="sqlite,postgres")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    seed = given.seed or random.randrange(1, 10**6)  # noqa: S311 - it names a run
    plan = Plan(given.kills, given.pauses, given.pause_seconds, seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as folder:
        results = asyncio.run(run(given.stores.split(","), Path(folder), plan))
    sound = all(is_sound(each) for each in results.values())
    verdict = "sound" if sound else "NOT SOUND"
    print(f"{table(results)}\n\n{verdict}; seed {seed}, {time.monotonic() - began:.0f} s")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
