"""Messages that a person sends right after each other become one, which is answered once."""

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import GatewaySettings
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import account_lease
from holdfast.testing import FakeClock
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import (
    ACCOUNT,
    SECONDS,
    a_gateway,
    let_in,
    traits,
    until_said,
    until_status,
)
from tests.gateway.hostile_fixtures import said_by_bot
from tests.sessions.store_fixtures import hold_lease

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines
LONG = GatewaySettings(debounce_s=60.0)


@pytest.mark.clause("G1")
def test_what_follows_a_mention_belongs_to_it_and_the_mention_is_answered(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.group(["ada", "eve"])
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0.3)) as (_, host):
            await platform.say(place, "ada", "what is this?", mention=True)
            await platform.say(place, "ada", "the thing on the table")
            await until_status(host, lambda now: now.events == {"joined": 1, "accepted": 1})
            await until_status(host, lambda now: now.posts == {"sent": 1})
        (said,) = said_by_bot(platform, place)
        assert "what is this?" in said
        assert "the thing on the table" in said

    run(scenario())


@pytest.mark.clause("G1")
def test_a_burst_over_the_end_of_a_second_is_answered_once(db: SessionDB) -> None:
    """Some platforms say only the second in which a message was sent."""

    async def scenario() -> None:
        clock = FakeClock(SystemClock().now())
        platform = MemoryPlatform(traits(), clock=clock)
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0.3)) as (_, host):
            for text in ("one", "two", "three"):
                await platform.say(place, "ada", text)
                clock.advance(1)
            await until_status(host, lambda now: now.events == {"joined": 2, "accepted": 1})
            await until_said(platform, place, "You said: one\n\ntwo\n\nthree")

    run(scenario())


def test_who_never_stops_is_answered_and_keeps_nobody_else_waiting(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada", "bob")
        ada, bob = await platform.direct("ada"), await platform.direct("bob")
        async with a_gateway(db, platform, settings=LONG) as (_, host):
            for number in range(250):
                await platform.say(ada, "ada", f"and {number}")
            await platform.say(bob, "bob", "/status")
            await platform.until(lambda: any("Model" in each for each in said_by_bot(platform, bob)), SECONDS)
            await until_status(host, lambda now: now.events.get("accepted", 0) > 0)

    run(scenario())


@pytest.mark.clause("G1")
def test_a_burst_that_a_crash_cut_off_keeps_the_mention_of_its_first_message(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.group(["ada", "eve"])
        async with a_gateway(db, platform, settings=LONG) as (_, host):
            await platform.say(place, "ada", "what is this?", mention=True)
            await platform.say(place, "ada", "the thing on the table")
            await until_status(host, lambda now: now.events == {"new": 2})
        first, last = db.chat_events.new(ACCOUNT)
        lease = hold_lease(db, account_lease(ACCOUNT), "a process that dies", ttl_seconds=60)
        db.chat_events.join([first.id, last.id], lease=lease)
        taken = db.leases.current(lease.name)
        assert taken is not None
        db.leases.release(taken)
        async with a_gateway(db, platform, settings=LONG) as (_, host):
            await until_status(host, lambda now: now.posts == {"sent": 1})
        (said,) = said_by_bot(platform, place)
        assert "what is this?" in said

    run(scenario())
