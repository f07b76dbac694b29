"""An account of a chat platform: each message is answered once, where it was asked, whatever breaks."""

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Repeat
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.chat_platform import Fault
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_said, until_status


@pytest.mark.clause("G1", "G2", "G7")
def test_a_message_is_answered_as_a_reply_in_its_chat(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            asked = await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")
            (answer,) = [each for each in platform.seen(place) if each.by_bot]
            assert answer.reply_to == asked
            await platform.say(place, "ada", "again")
            await until_said(platform, place, "You said: hello", "You said: again")
            await until_status(host, lambda now: now.events == {"accepted": 2} and now.posts == {"sent": 2})
        assert not platform.is_typing(place)

    run(scenario())


def test_two_people_have_two_conversations(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada", "bob")
        places = [await platform.direct(each) for each in ("ada", "bob")]
        async with a_gateway(db, platform):
            for place, person in zip(places, ("ada", "bob"), strict=True):
                await platform.say(place, person, f"I am {person}")
                await until_said(platform, place, f"You said: I am {person}")
        sessions = {room.session_id for room in db.chat_events.rooms(ACCOUNT)}
        assert len(sessions) == 2

    run(scenario())


@pytest.mark.clause("G2")
@pytest.mark.parametrize("repeat", ["key", "look", "placeholder"])
@pytest.mark.parametrize("fault", ["slow down", "drop before", "drop after"])
def test_a_fault_of_the_platform_doubles_no_answer(db: SessionDB, repeat: Repeat, fault: Fault) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits(repeat=repeat))
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0, preview=False)):
            await platform.fail(fault)
            await platform.say(place, "ada", "hello")
            placeholder = ["…"] if repeat == "placeholder" and fault == "drop after" else []
            await until_said(platform, place, *placeholder, "You said: hello")

    run(scenario())


@pytest.mark.clause("G1", "G3")
def test_what_was_sent_while_the_gateway_was_away_is_answered_in_order_and_commands_are_left_out(
    db: SessionDB,
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada", "bob")
        ada, bob = await platform.direct("ada"), await platform.direct("bob")
        async with a_gateway(db, platform):
            await platform.say(ada, "ada", "first")
            await until_said(platform, ada, "You said: first")
        for number in range(12):
            await platform.say(ada, "ada", f"missed {number}")
        await platform.say(bob, "bob", "before it")
        await platform.say(bob, "bob", "/new")
        await platform.say(bob, "bob", "after it")
        async with a_gateway(db, platform):
            missed = [f"You said: missed {number}" for number in range(12)]
            await until_said(platform, ada, "You said: first", *missed)
            await platform.until(lambda: sum(each.by_bot for each in platform.seen(bob)) == 3, 30)
            before, notice, after = [each.text for each in platform.seen(bob) if each.by_bot]
            assert (before, after) == ("You said: before it", "You said: after it")
            assert "did not run this command" in notice
            assert "/new" in notice

    run(scenario())


@pytest.mark.clause("G1")
def test_a_message_that_is_too_old_is_said_and_not_answered(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        settings = GatewaySettings(debounce_s=0, age_limit_h=1e-9)
        async with a_gateway(db, platform, settings=settings):
            pass
        await platform.say(place, "ada", "hello")
        async with a_gateway(db, platform, settings=settings) as (_, host):
            await platform.until(lambda: any(each.by_bot for each in platform.seen(place)))
            await until_status(host, lambda now: now.events == {"expired": 1})
        (notice,) = [each.text for each in platform.seen(place) if each.by_bot]
        assert "older than" in notice

    run(scenario())


@pytest.mark.clause("G1")
def test_an_event_that_is_delivered_again_is_answered_once(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")
            await platform.deliver_again()
            await platform.kick()
            await platform.say(place, "ada", "more")
            await until_said(platform, place, "You said: hello", "You said: more")

    run(scenario())


@pytest.mark.clause("G7")
def test_an_answer_that_a_chat_refuses_waits_for_a_person(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0, preview=False)) as (
            _,
            host,
        ):
            await platform.fail("refuse")
            await platform.say(place, "ada", "hello")
            (failed,) = (await until_status(host, lambda now: bool(now.failed))).failed
            await platform.say(place, "ada", "more")
            await until_said(platform, place, "You said: more")
            db.chat_posts.retry(failed.id)
            await until_said(platform, place, "You said: more", "You said: hello")

    run(scenario())


def test_messages_sent_in_a_burst_become_one(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0.3)) as (_, host):
            for text in ("one", "two", "three"):
                await platform.say(place, "ada", text)
            await until_said(platform, place, "You said: one\n\ntwo\n\nthree")
            await until_status(host, lambda now: now.events == {"joined": 2, "accepted": 1})

    run(scenario())


def test_messages_that_arrive_together_but_were_sent_apart_stay_apart(db: SessionDB) -> None:
    async def scenario() -> None:
        clock = FakeClock(SystemClock().now())
        platform = MemoryPlatform(traits(), clock=clock)
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0.3)):
            await platform.say(place, "ada", "one")
            clock.advance(5)
            await platform.say(place, "ada", "two")
            await until_said(platform, place, "You said: one", "You said: two")

    run(scenario())


def test_a_long_answer_comes_in_parts_in_order(db: SessionDB) -> None:
    text = "\n\n".join(f"Paragraph {number} says something." for number in range(40))

    async def scenario() -> None:
        platform = MemoryPlatform(traits(max_size=200))
        let_in(db, "ada")
        place = await platform.direct("ada")
        settings = GatewaySettings(debounce_s=0, file_after=("4", f"{ACCOUNT}=0"))
        async with a_gateway(db, platform, lambda _: ScriptedModel([text]), settings=settings):
            await platform.say(place, "ada", "tell me")
            await platform.until(
                lambda: sum(each.text.count("Paragraph") for each in platform.seen(place)) == 40
            )
        said = [each for each in platform.seen(place) if each.by_bot]
        assert "\n\n".join(each.text for each in said) == text
        assert [bool(each.reply_to) for each in said] == [True] + [False] * (len(said) - 1)

    run(scenario())


def test_an_answer_of_many_messages_is_its_beginning_and_a_file(db: SessionDB) -> None:
    text = "\n\n".join(f"Paragraph {number} says something." for number in range(40))

    async def scenario() -> None:
        platform = MemoryPlatform(traits(max_size=200))
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform, lambda _: ScriptedModel([text])) as (_, host):
            await platform.say(place, "ada", "tell me")
            await until_status(host, lambda now: now.posts == {"sent": 1})
        beginning, whole = [each for each in platform.seen(place) if each.by_bot]
        assert beginning.text.startswith("Paragraph 0 says something.")
        assert "in the file below" in beginning.text
        assert whole.file == text.encode()

    run(scenario())


def test_a_wrong_token_is_said_and_stops_the_account(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        platform.server.accepts_token = False
        async with a_gateway(db, platform) as (gateway, _):
            assert gateway.accounts[ACCOUNT].health.state == "refused"

    run(scenario())
