"""What waits is shown to wait; silence, budgets and roles by the settings."""

import asyncio

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import GatewaySettings
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.wiring.chat_policies import ChatPolicies
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_said, until_status

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines


def test_a_message_that_waits_gets_a_sign_once_it_is_stored(db: SessionDB) -> None:
    async def scenario() -> None:
        gate = asyncio.Event()

        async def hang(_: object) -> str:
            await gate.wait()
            return "first"

        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        script = ScriptedModel([hang, "second"])
        async with a_gateway(db, platform, lambda _: script) as (_, host):
            runs = await platform.say(place, "ada", "one")
            await platform.until(lambda: platform.is_typing(place))
            waits = await platform.say(place, "ada", "two")
            chat = platform.server.chats[place.chat]
            await platform.until(lambda: bool((found := chat.message(waits)) and found.reactions))
            assert (await host.chats.status(ACCOUNT)).events == {"accepted": 2}
            first = chat.message(runs)
            assert first is not None
            assert first.reactions == []
            gate.set()
            await until_said(platform, place, "first", "second")

    run(scenario())


@pytest.mark.parametrize(("hours", "conversations"), [(0.0, 1), (2.0, 2)])
def test_a_long_silence_begins_a_new_conversation_only_if_the_settings_say_so(
    db: SessionDB, hours: float, conversations: int
) -> None:
    async def scenario() -> None:
        clock = FakeClock(SystemClock().now())
        platform = MemoryPlatform(traits(), clock=clock)
        let_in(db, "ada")
        place = await platform.direct("ada")
        said: list[str] = []
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0, reset_after_h=hours)):
            for word in ("one", "two"):
                await platform.say(place, "ada", word)
                said.append(f"You said: {word}")
                await until_said(platform, place, *said)
                clock.advance(3 * 3600)

    run(scenario())
    (room,) = db.chat_events.rooms(ACCOUNT)
    assert len(db.chat_events.conversations(room.id)) == conversations


def test_an_answer_that_is_asked_for_again_counts_as_a_message(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        settings = GatewaySettings(debounce_s=0, user_daily_messages=2)
        async with a_gateway(db, platform, settings=settings) as (_, host):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")
            for sent in (2, 3, 4):
                await platform.say(place, "ada", "/retry")
                wanted = {"sent": sent}
                await until_status(host, lambda now: now.posts == wanted)  # noqa: B023 - waited for here
        said = [each.text for each in platform.seen(place) if each.by_bot]
        assert said.count("You said: hello") == 2
        assert sum("more than your 2 messages" in each for each in said) == 2

    run(scenario())


def test_each_role_has_its_budget_of_messages_and_tokens(db: SessionDB) -> None:
    settings = GatewaySettings(
        debounce_s=0, guest_daily_messages=1, guest_daily_tokens=500, user_daily_tokens=9000
    )

    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        db.chat_people.put(ACCOUNT, "person-eve", "guest")
        ada, eve = await platform.direct("ada"), await platform.direct("eve")
        async with a_gateway(db, platform, settings=settings) as (_, host):
            for place, person in ((ada, "ada"), (eve, "eve")):
                for number in range(2):
                    await platform.say(place, person, f"word {number}")
            await until_status(host, lambda now: now.posts == {"sent": 4})
            await until_said(platform, ada, "You said: word 0", "You said: word 1")
        answer, refusal = sorted(each.text for each in platform.seen(eve) if each.by_bot)[::-1]
        assert answer == "You said: word 0"
        assert "more than your 1 messages" in refusal

    run(scenario())
    policies = ChatPolicies(db.chat_people, settings)
    limits = [policies(f"{ACCOUNT}/person-{each}").daily_tokens for each in ("ada", "eve", "nobody")]
    assert limits == [9000, 500, 500]
    assert policies("").daily_tokens is None
