"""A real gateway that is killed answers every message once; `bench.gateway_soak` does the same for long."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.gateway_soak.__main__ import is_sound
from bench.gateway_soak.model import NumberedModel
from bench.gateway_soak.people import PEOPLE, Room, Talk
from holdfast.sessions import SessionDB
from tests.gateway.chat_sites import NAMES, ChatSite, a_site
from tests.gateway.gateway_process import GatewayProcess
from tests.gateway.moments import Moments
from tests.gateway.synapse_server import SynapseServer

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

SECONDS = 150.0
MOMENTS: dict[str, tuple[str, ...]] = dict.fromkeys(NAMES, ("at delivery", "after send"))
MOMENTS["matrix"] = ("at delivery", "model asked", "after send")
"""What is between the gateway and its model is the same for all, so it is tried where a start is cheap."""


@dataclass
class World:
    """A platform, a model, and whatever gateways are started."""

    folder: Path
    store_url: str
    site: ChatSite
    model: NumberedModel
    model_url: str
    moments: Moments
    stack: AsyncExitStack
    victim: GatewayProcess | None = None
    stroke: str = "kill"
    """What happens to the victim at an armed moment: kill, or stand still."""

    async def gateway(self, name: str, *, host: str = "") -> GatewayProcess:
        """A gateway that is set up and not started."""
        gateway = GatewayProcess(self.folder / name, self.store_url, self.model_url, host=host)
        self.stack.push_async_callback(gateway.kill)
        await gateway.set_up(self.site.name, self.site.values, self.site.person_id(PEOPLE[0]))
        self.victim = self.victim or gateway
        return gateway

    async def kill(self) -> None:
        assert self.victim is not None
        if self.stroke == "kill":
            await self.victim.kill()
        else:
            self.victim.stand_still()


@asynccontextmanager
async def a_world(
    folder: Path, store_url: str, name: str, synapse: SynapseServer | None = None
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        moments = Moments(lambda: world.kill())  # noqa: PLW0108 - it is made below
        model = NumberedModel(moments)
        model_url = await stack.enter_async_context(model.serving())
        site = await stack.enter_async_context(a_site(name, moments, synapse))
        world = World(folder, store_url, site, model, model_url, moments, stack)
        yield world


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(), SECONDS))


async def settled(store_url: str, account: str) -> None:
    """Wait until the ledger has nothing under way."""
    with SessionDB.open(store_url) as db:
        posts, events = db.chat_posts, db.chat_events
        while set(posts.counts(account)) != {"sent"} or "new" in events.counts(account):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # noqa: TID251 - polls under a deadline


@pytest.mark.parametrize("name", NAMES)
def test_a_gateway_that_is_killed_answers_each_message_once_in_its_place(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    synapse = request.getfixturevalue("synapse") if name == "matrix" else None
    store_url = f"sqlite:///{tmp_path}/holdfast.db"

    async def story() -> None:
        async with a_world(tmp_path, store_url, name, synapse) as world:
            talk = Talk(world.site, seed=1)
            platform, owner = world.site.platform, PEOPLE[:1]
            talk.rooms = [
                Room(await platform.direct(PEOPLE[0]), owner, mention=False),
                Room(await world.site.thread(PEOPLE), owner, mention=True),
            ]
            gateway = await world.gateway("home")
            await gateway.start_and_connect()
            for room in talk.rooms:
                await talk.say(room)
            await talk.until_answered()
            for moment in MOMENTS[name]:
                struck = world.moments.arm(moment)
                for room in talk.rooms:
                    await talk.say(room)
                await struck.wait()
                await gateway.start_and_connect()
                await talk.until_answered()
            await settled(store_url, name)
            found = await talk.audit()
            found["kills"] = len(MOMENTS[name])
            assert is_sound(found), found

    play(story)


@pytest.mark.parametrize(
    ("live_url", "hosts", "platform"),
    [
        pytest.param("sqlite", ("", ""), "slack", id="sqlite-one host"),
        pytest.param("postgres", ("one", "two"), "slack", id="postgres-two hosts"),
        pytest.param("sqlite", ("one", "two"), "telegram", id="sqlite-two hosts", marks=pytest.mark.soak),
        pytest.param("postgres", ("", ""), "telegram", id="postgres-one host", marks=pytest.mark.soak),
    ],
    indirect=["live_url"],
)
def test_of_two_gateways_with_one_token_the_second_takes_over_when_the_first_is_killed(
    hosts: tuple[str, str], platform: str, live_url: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with a_world(tmp_path, live_url, platform) as world:
            talk = Talk(world.site, seed=2)
            room = Room(await world.site.platform.direct(PEOPLE[0]), PEOPLE[:1], mention=False)
            talk.rooms = [room]
            first = await world.gateway("first", host=hosts[0])
            second = await world.gateway("second", host=hosts[1])
            await first.start_and_connect()
            await second.start()
            await second.waits.wait()
            await talk.say(room)
            await talk.until_answered()
            assert not second.connected.is_set()

            struck = world.moments.arm("answer half said")
            await talk.say(room)
            await struck.wait()
            await talk.say(room)
            await second.connected.wait()
            await talk.until_answered()
            await settled(live_url, platform)
            found = await talk.audit()
            found["kills"] = 1
            assert is_sound(found), found
            assert not re.search("[Cc]onflict", second.said)

    play(story)


@pytest.mark.clause("G3", "N2")
@pytest.mark.parametrize(
    ("live_url", "hosts", "platform"),
    [
        pytest.param("postgres", ("one", "two"), "slack", id="postgres-two hosts"),
        pytest.param("postgres", ("one", "two"), "telegram", id="telegram-two hosts", marks=pytest.mark.soak),
        pytest.param("sqlite", ("", ""), "slack", id="sqlite-one host", marks=pytest.mark.soak),
    ],
    indirect=["live_url"],
)
def test_a_gateway_that_stood_still_is_taken_over_and_answers_nothing_again_when_it_goes_on(
    hosts: tuple[str, str], platform: str, live_url: str, tmp_path: Path
) -> None:
    async def story() -> None:
        async with a_world(tmp_path, live_url, platform) as world:
            talk = Talk(world.site, seed=3)
            room = Room(await world.site.platform.direct(PEOPLE[0]), PEOPLE[:1], mention=False)
            talk.rooms = [room]
            first = await world.gateway("first", host=hosts[0])
            second = await world.gateway("second", host=hosts[1])
            await first.start_and_connect()
            await second.start()
            await second.waits.wait()
            await talk.say(room)
            await talk.until_answered()

            world.stroke = "stand still"
            struck = world.moments.arm("model asked")
            await talk.say(room)
            await struck.wait()
            await second.connected.wait()
            await talk.until_answered()
            first.go_on()
            await first.waits.wait()
            await talk.say(room)
            await talk.until_answered()
            await settled(live_url, platform)
            found = await talk.audit()
            found["kills"] = 1
            assert is_sound(found), found

    play(story)
