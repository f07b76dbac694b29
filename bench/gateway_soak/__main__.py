"""The gateway's long run: it is killed again and again while people talk, and then the chats are read.

`python -m bench.gateway_soak --platform telegram --kills 200 --store sqlite` starts a real gateway, kills
it at moments between "the platform has the message" and "the answer is there", and starts it again at once.
In between the platform drops calls, asks to slow down, breaks connections and delivers twice. Every message
must be answered once, in order, in its place, as an answer to it. `--seed` repeats the choices of a run.
After SIGTERM or Ctrl-C nothing more is killed, and what happened so far is judged.
"""

import argparse
import asyncio
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.gateway_soak.model import NumberedModel
from bench.gateway_soak.people import FAULTS, PEOPLE, Talk
from bench.soak.__main__ import stores, table
from holdfast.sessions import SessionDB
from tests.gateway.chat_sites import NAMES, ChatSite, a_site
from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.moments import Moments
from tests.gateway.synapse_server import SynapseServer

AT_RANDOM = "at random"
MOMENTS = (
    *("at delivery", "before acknowledge", "model asked", "answer half said", "model answered"),
    *("before send", "after send", "before edit", "after edit", AT_RANDOM),
)
MOMENT_WITHIN = 12.0
REST_WITHIN = 300.0
FAULT_EVERY = 3
"""One kill in so many comes with a fault of the platform."""
IN_A_ROW = 3
"""A turn whose process ends more often is not tried again, since it may be what ends the process."""


@dataclass(frozen=True)
class Plan:
    """What happens to the gateway on one platform."""

    platform: str
    kills: int
    seed: int


async def torture(store_url: str, folder: Path, plan: Plan, synapse: SynapseServer | None) -> Counter[str]:
    """One platform on one store: its gateway, its people, and the books."""
    async with AsyncExitStack() as stack:
        moments = Moments(lambda: gateway.kill())  # noqa: PLW0108 - it is made below
        model = NumberedModel(moments)
        model_url = await stack.enter_async_context(model.serving())
        site = await stack.enter_async_context(a_site(plan.platform, moments, synapse))
        gateway = GatewayProcess(folder / plan.platform, store_url, model_url)
        stack.push_async_callback(gateway.kill)
        talk = Talk(site, plan.seed)
        await talk.open_rooms()
        owner, *others = map(site.person_id, PEOPLE)
        await gateway.set_up(site.name, site.values, owner)
        for each in others:
            await gateway.command("gateway", "allow", site.name, each)
        await gateway.start_and_connect()
        enough = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, enough.set)
        talking = asyncio.create_task(talk.go_on(enough))
        found = await _disturb(gateway, talk, moments, plan, enough)
        enough.set()
        await talking
        with SessionDB.open(store_url) as db:
            rested = await _at_rest(db, site.name, talk, gateway)
            found += await talk.audit()
            found |= _audit(db, site.name)
        found["seconds until at rest"] = round(rested)
        found["lines of trouble in the log"] = len(gateway.troubles())
        for line in gateway.troubles()[:5]:
            print(line, file=sys.stderr)
        return found


async def _disturb(
    gateway: GatewayProcess, talk: Talk, moments: Moments, plan: Plan, enough: asyncio.Event
) -> Counter[str]:
    site = talk.site
    chance = random.Random(plan.seed * 1000)  # noqa: S311 - it chooses a moment
    found: Counter[str] = Counter(kills=0)
    for number in range(plan.kills):
        if enough.is_set():
            break
        print(f"{site.name}: {number} of {plan.kills} kills", file=sys.stderr)
        if not number % FAULT_EVERY:
            found[f"fault: {await _fault(site, chance)}"] += 1
        if not number % IN_A_ROW:
            with suppress(TimeoutError):
                async with asyncio.timeout(REST_WITHIN):
                    await talk.until_answered()
        moment = chance.choice(MOMENTS)
        if await _wait_for(moment, moments, talk, chance):
            found[f"killed {moment}"] += 1
        else:
            found["killed late, the moment did not come"] += 1
            await gateway.kill()
        found["kills"] += 1
        await gateway.start()
    return found


async def _wait_for(moment: str, moments: Moments, talk: Talk, chance: random.Random) -> bool:
    """Whether the moment came, and the gateway was killed at it."""
    await talk.speak_up()
    if moment == AT_RANDOM:
        await asyncio.sleep(chance.uniform(0.0, 4.0))
        moments.arm(moment)
        return await moments.reached(moment)
    struck = moments.arm(moment)
    with suppress(TimeoutError):
        async with asyncio.timeout(MOMENT_WITHIN):
            await struck.wait()
    moments.disarm()
    return struck.is_set()


async def _fault(site: ChatSite, chance: random.Random) -> str:
    what = chance.choice(["slow down", "drop before", "drop after", "kick", "deliver again"])
    if what == "kick":
        await site.platform.kick()
    elif what == "deliver again":
        await site.platform.deliver_again()
    elif what == "slow down":
        await site.platform.fail("slow down")
    else:
        await site.platform.fail("drop before" if what == "drop before" else "drop after")
    return what


async def _at_rest(db: SessionDB, account: str, talk: Talk, gateway: GatewayProcess) -> float:
    """How long it takes until every message has its answer and nothing is under way; below 0: never."""
    began = time.monotonic()
    while await talk.waiting() or not _is_at_rest(db, account):
        if time.monotonic() - began > REST_WITHIN or not gateway.is_running:
            return -1.0
        await asyncio.sleep(0.5)
    return time.monotonic() - began


def _is_at_rest(db: SessionDB, account: str) -> bool:
    posts, events = db.chat_posts.counts(account), db.chat_events.counts(account)
    under_way = posts.get("due", 0) + posts.get("open", 0) + events.get("new", 0)
    return not under_way and not db.inbox.sessions() and not db.turns.unfinished()


def _audit(db: SessionDB, account: str) -> Counter[str]:
    """What the ledger says."""
    posts, events = db.chat_posts.counts(account), db.chat_events.counts(account)
    found: Counter[str] = Counter({f"event {state}": count for state, count in events.items()})
    found.update({f"post {state}": count for state, count in posts.items()})
    parts: Counter[str] = Counter()
    for post_id in range(1, sum(posts.values()) * 2 + 10):
        parts.update(f"part {part.state}" for part in db.chat_posts.parts(post_id))
    found.update(parts)
    for post in db.chat_posts.failed(account)[:5]:
        print(f"failed: {post}", file=sys.stderr)
    for event in db.chat_events.refused(account)[:5]:
        print(f"refused: {event}", file=sys.stderr)
    found["faults of the store"] = len(db.check())
    found["not at rest"] = 0 if _is_at_rest(db, account) else 1
    return found


BAD = (
    *FAULTS,
    *("event new", "event refused", "event expired", "event joined"),
    *("post open", "post due", "post failed", "part new", "part sending", "part standing"),
    *("faults of the store", "not at rest"),
)


def is_sound(found: Counter[str]) -> bool:
    """Whether each message was answered once; only a kill or a lost answer may leave a placeholder."""
    allowed = found["kills"] + found["fault: drop after"]
    is_whole = found["answered once"] == found["messages"] and not any(found[each] for each in BAD)
    return is_whole and found["placeholders too many"] <= allowed


@contextmanager
def matrix_server(platforms: list[str], folder: Path) -> Iterator[SynapseServer | None]:
    """A real Matrix server, if one is needed."""
    if "matrix" not in platforms:
        yield None
        return
    (folder / "synapse").mkdir()
    server = SynapseServer(folder / "synapse")
    try:
        server.start()
        yield server
    finally:
        server.stop()


async def run(
    platforms: list[str], store: str, folder: Path, kills: int, seed: int
) -> dict[str, Counter[str]]:
    """One platform after another, each on a store of its own."""
    results = {}
    with matrix_server(platforms, folder) as synapse:
        for platform in platforms:
            own = folder / f"{platform}-{store}"
            own.mkdir()
            with stores([store], own) as urls:
                plan = Plan(platform, kills, seed)
                results[platform] = await torture(urls[store], own, plan, synapse)
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--platform", default=",".join(NAMES), help="one or more, with commas")
    parser.add_argument("--kills", type=int, default=200, help="for each platform")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", default="", help="a folder for the store and the log, which then stay")
    given = parser.parse_args()
    seed = given.seed or random.randrange(1, 10**6)  # noqa: S311 - it names a run
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="holdfast-soak-", ignore_cleanup_errors=True) as made:
        folder = Path(given.keep or made)
        folder.mkdir(exist_ok=True, parents=True)
        results = asyncio.run(run(given.platform.split(","), given.store, folder, given.kills, seed))
    sound = all(is_sound(each) for each in results.values())
    verdict = "sound" if sound else "NOT SOUND"
    print(f"{table(results)}\n\n{verdict}; {given.store}, seed {seed}, {time.monotonic() - began:.0f} s")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
