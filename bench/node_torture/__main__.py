"""Four nodes on one PostgreSQL, each in its own network namespace, tortured at random while clients talk.

python -m bench.node_torture [--faults 40] [--seed S]     needs root, iproute2 and pgbouncer

Nodes (`holdfast web` three times, two of them with `--gateway`, `holdfast worker` once) are killed, paused
for longer than a lease, and cut off from the database without a word; the database is restarted and
crashed, and so is the PgBouncer through which two nodes reach it. The database has fsync off, since no
power is cut: what it wrote is in the system's memory when it crashes. Meanwhile clients send messages in
every mode, compact, begin new conversations, and delete some, and people talk on Telegram. Then a checker
reads the database by plain SQL (`checker.py`), and the chats are read as people see them. `--seed` repeats
the choices.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from bench.durability import durability
from bench.gateway_soak.people import FAULTS as CHAT_FAULTS
from bench.gateway_soak.people import PEOPLE, Talk
from bench.node_torture.checker import check, is_at_rest
from bench.node_torture.clients import Client, Ledger
from bench.node_torture.database import BOUNCER, Database, a_bouncer, a_database
from bench.node_torture.faults import Fault, Torturer, plan
from bench.node_torture.hits import report
from bench.node_torture.log import LOG
from bench.node_torture.network import CLIENTS, DATABASE, network, why_not
from bench.node_torture.nodes import Node, a_world
from tests.gateway.chat_sites import ChatSite, telegram_site
from tests.gateway.moments import Moments

NODES = ("web --gateway", "web", "web --gateway", "worker")
THROUGH_BOUNCER = (2, 3)
CLIENTS_AT_ONCE = 10
REST_WITHIN = 240.0


def reason_to_skip() -> str:
    """Why the torture can't be had here; empty when it can."""
    return why_not() or ("" if BOUNCER else "PgBouncer is not installed (Debian: pgbouncer)")


async def torture(folder: Path, faults: list[Fault], seed: int) -> tuple[Counter[str], list[str]]:
    """The whole run: what was found, and words on what must not be."""
    async with AsyncExitStack() as stack:
        net = stack.enter_context(network(len(NODES)))
        database = await stack.enter_async_context(a_database(net.server(DATABASE)))
        bouncer = await stack.enter_async_context(a_bouncer(database.url, net.server(DATABASE)))
        world = await stack.enter_async_context(a_world(net.server(CLIENTS)))
        site = await stack.enter_async_context(telegram_site(Moments(_never), net.server(CLIENTS)))
        nodes = [
            Node(number, command, net, bouncer.url if number in THROUGH_BOUNCER else database.url, world)
            for number, command in enumerate(NODES)
        ]
        talk = Talk(site, seed)
        await talk.open_rooms()
        await _start(stack, folder, nodes, database, site)
        books, torturer = Ledger(), Torturer(nodes, database, bouncer, THROUGH_BOUNCER)
        await _disturb_and_talk(nodes, books, torturer, faults, seed, talk)
        rested = await _rest(database, talk)
        found, words = check(database.execute, books, world.delivered, torturer.hits)
        found |= await _chats(talk, len(faults))
        numbers, more = report(database.execute, torturer.hits)
        words += [*more, f"the database: {durability(database.local_url)}"]
    result = Counter(f"fault: {hit.kind}" for hit in torturer.hits) | numbers
    result |= torturer.ended
    result |= Counter({f"asked: {what}": count for what, count in sorted(books.counts.items())})
    result["messages accepted"] = len(books.sent)
    result |= found
    result["seconds until at rest"] = round(rested)
    if rested < 0:
        result["FAULT: never at rest"] = 1
    return result, words


async def _start(
    stack: AsyncExitStack, folder: Path, nodes: list[Node], database: Database, site: ChatSite
) -> None:
    first, *others = nodes
    for node in nodes:
        node.live_in(folder)
        stack.push_async_callback(node.close)
    given = [word for name, value in site.values.items() for word in ("--set", f"{name}={value}")]
    owner, *users = map(site.person_id, PEOPLE)
    for node in nodes:
        if node.has_gateway:
            await node.run_command("gateway", "setup", site.name, *given, "--no-check", "--owner", owner)
    for each in users:
        await first.run_command("gateway", "allow", site.name, each)
    await first.start()
    database.execute(LOG)  # the tables are there
    await asyncio.gather(*(node.start() for node in others))


async def _disturb_and_talk(
    nodes: list[Node], books: Ledger, torturer: Torturer, faults: list[Fault], seed: int, talk: Talk
) -> None:
    enough = asyncio.Event()
    pages = [node for node in nodes if node.command == "web"]
    people = [Client(f"c{number}", seed + number, pages, books) for number in range(CLIENTS_AT_ONCE)]
    talking = [asyncio.create_task(each.talk(enough)) for each in people]
    talking.append(asyncio.create_task(talk.go_on(enough)))
    beside = [asyncio.create_task(each.follow()) for each in people]
    beside.append(asyncio.create_task(torturer.manage()))
    try:
        await torturer.carry_out(faults)
        enough.set()
        await asyncio.gather(*talking)
    finally:
        for task in (*beside, *talking):
            task.cancel()
        for task in beside:
            with suppress(asyncio.CancelledError):
                await task


async def _never() -> None:
    """No node is killed at a moment of the platform's."""


async def _rest(database: Database, talk: Talk) -> float:
    """How long it takes until nothing is left to do; below 0: never."""
    began = time.monotonic()
    while await talk.waiting() or not await asyncio.to_thread(is_at_rest, database.execute):
        if time.monotonic() - began > REST_WITHIN:
            return -1.0
        await asyncio.sleep(0.25)
    return time.monotonic() - began


async def _chats(talk: Talk, faults: int) -> Counter[str]:
    """What the chats show, as people see them. A node that ends while it sends may leave a placeholder."""
    seen = await talk.audit()
    found: Counter[str] = Counter({f"chats: {what}": count for what, count in seen.items() if count})
    found |= Counter({f"FAULT: chats: {what}": seen[what] for what in CHAT_FAULTS if seen[what]})
    if seen["answered once"] != seen["messages"] or seen["placeholders too many"] > faults:
        found["FAULT: chats: not every message was answered once"] = 1
    return found


def is_sound(found: Counter[str]) -> bool:
    return not any(what.startswith("FAULT") for what in found)


def table(found: Counter[str]) -> str:
    return "\n".join(["| what | found |", "|---|---|", *(f"| {what} | {n} |" for what, n in found.items())])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if reason := reason_to_skip():
        print(f"not run: {reason}", file=sys.stderr)
        return 2
    seed = given.seed or random.randrange(1, 10**6)  # noqa: S311 - it names a run
    print(f"seed {seed}", file=sys.stderr)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-torture-"))
    found, words = asyncio.run(torture(folder, plan(given.faults, len(NODES), seed), seed))
    sound = is_sound(found)
    print("\n".join(words), file=sys.stderr)
    if sound:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"the nodes' logs are in {folder}", file=sys.stderr)
    verdict = "sound" if sound else "NOT SOUND"
    print(f"{table(found)}\n\n{verdict}; seed {seed}, {time.monotonic() - began:.0f} s")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
