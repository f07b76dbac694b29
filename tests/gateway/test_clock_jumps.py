"""The machine's time is set forward or back while the gateway runs: messages are answered all the same."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.gateway import Gateway
from holdfast.host import SessionHost
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_posts import NewPost
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import (
    ACCOUNT,
    SETTINGS,
    a_host,
    answered,
    let_in,
    traits,
    until_said,
    until_status,
)

DAY = 86_400.0
JUMPS = pytest.mark.parametrize("seconds", [-2 * DAY, 2 * DAY], ids=["back", "forward"])


class JumpingClock(SystemClock):
    """The machine's clock, whose time can be set; what passes is counted as before."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock()


@pytest.fixture
def store(clock: JumpingClock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionDB]:
    """A store whose times are those of the machine."""
    with SessionDB.open(f"sqlite:///{tmp_path_factory.mktemp('store')}/holdfast.db", clock=clock) as db:
        yield db


@asynccontextmanager
async def a_gateway_at(
    clock: Clock, db: SessionDB, platform: MemoryPlatform, settings: GatewaySettings = SETTINGS
) -> AsyncIterator[SessionHost]:
    """A gateway with this clock that has caught up."""
    async with a_host(db) as host:
        parts = GatewayParts(host, settings, Path("/nowhere").joinpath, clock)
        gateway = Gateway({ACCOUNT: platform.adapter()}, parts)
        async with gateway.running():
            await answered(gateway)
            yield host


@JUMPS
@pytest.mark.clause("G1")
def test_a_message_is_answered_though_the_time_of_the_gateway_is_another_than_the_platforms_and_the_stores(
    store: SessionDB, seconds: float
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(store, "ada")
        place = await platform.direct("ada")
        other = JumpingClock()
        other.ahead = seconds
        settings = GatewaySettings(debounce_s=0.05)
        async with a_gateway_at(other, store, platform, settings):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")

    run(scenario())


@JUMPS
@pytest.mark.clause("G1", "G2")
def test_a_chat_goes_on_when_the_time_is_set_in_the_middle_of_it(
    store: SessionDB, clock: JumpingClock, seconds: float
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(store, "ada")
        place = await platform.direct("ada")
        async with a_gateway_at(clock, store, platform):
            await platform.say(place, "ada", "one")
            await until_said(platform, place, "You said: one")
            clock.ahead = seconds
            await platform.say(place, "ada", "two")
            await until_said(platform, place, "You said: one", "You said: two")

    run(scenario())


@pytest.mark.clause("G2")
def test_what_was_to_be_sent_before_the_time_was_set_back_is_sent(
    store: SessionDB, clock: JumpingClock
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(store, "ada")
        place = await platform.direct("ada")
        async with a_gateway_at(clock, store, platform) as host:
            await platform.say(place, "ada", "one")
            await until_said(platform, place, "You said: one")
            await until_status(host, lambda now: now.posts == {"sent": 1})
        (room,) = store.chat_events.rooms(ACCOUNT)
        store.chat_posts.put(NewPost("notice", room.id, {"text": "a notice"}))
        clock.ahead = -2 * DAY
        async with a_gateway_at(clock, store, platform):
            await until_said(platform, place, "You said: one", "a notice")

    run(scenario())
