"""The chat platform in memory does what its traits and its faults say."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.gateway.contract import (
    Adapter,
    AdapterTraits,
    Batch,
    Button,
    FileTooLarge,
    Incoming,
    NotTaken,
    Outgoing,
    Place,
    Repeat,
    Route,
    SendRefused,
    SignInRefused,
    SlowDown,
    TakenElsewhere,
    Unreachable,
)
from holdfast.process import run
from holdfast.testing.chat_platform import ChatPlatform
from holdfast.testing.clock import FakeClock
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import TRAITS, MemoryPlatform


async def next_of(batches: AsyncGenerator[Batch, None]) -> Batch:
    async with asyncio.timeout(10):
        return await anext(batches)


async def received(adapter: Adapter, cursors: dict[str, str], count: int) -> list[Incoming]:
    """The next events after these cursors, which move along."""
    events: list[Incoming] = []
    async with aclosing(adapter.receive(cursors)) as batches:
        while True:
            batch = await next_of(batches)
            events += batch.events
            cursors.update(batch.cursors)
            await batch.acknowledge()
            if batch.caught_up and len(events) >= count:
                return events


def test_it_has_the_shape_of_a_platform_and_of_an_adapter() -> None:
    platform: ChatPlatform = MemoryPlatform()
    adapter: Adapter = platform.adapter()
    assert adapter.traits is TRAITS


def test_what_was_said_during_an_absence_comes_first_and_in_order() -> None:
    async def story() -> None:
        platform = MemoryPlatform(options=MemoryOptions(page=2))
        place = await platform.direct("ada")
        await platform.say(place, "ada", "before the first start")
        cursors: dict[str, str] = {}
        assert await received(platform.adapter(), cursors, 0) == []
        for number in range(5):
            await platform.say(place, "ada", f"missed {number}")
        texts: list[str] = []
        async with aclosing(platform.adapter().receive(cursors)) as batches:
            first = await next_of(batches)
            assert not first.caught_up
            await platform.say(place, "ada", "live")
            texts += [each.text for each in first.events]
            while "live" not in texts:
                texts += [each.text for each in (await next_of(batches)).events]
        assert texts == [*(f"missed {number}" for number in range(5)), "live"]

    run(story())


def test_a_kick_breaks_the_connection_and_a_second_receiver_replaces_the_first() -> None:
    async def story() -> None:
        platform = MemoryPlatform()
        async with aclosing(platform.adapter().receive({})) as batches:
            await next_of(batches)
            await platform.kick()
            with pytest.raises(Unreachable):
                await next_of(batches)
        async with (
            aclosing(platform.adapter().receive({})) as older,
            aclosing(platform.adapter().receive({})) as newer,
        ):
            await next_of(older)
            await next_of(newer)
            with pytest.raises(TakenElsewhere):
                await next_of(older)

    run(story())


def test_what_was_received_is_delivered_again_with_its_id() -> None:
    async def story() -> None:
        platform = MemoryPlatform()
        place = await platform.direct("ada")
        cursors: dict[str, str] = {}
        await received(platform.adapter(), cursors, 0)
        await platform.say(place, "ada", "hello")
        [first] = await received(platform.adapter(), cursors, 1)
        await platform.deliver_again()
        [again] = await received(platform.adapter(), cursors, 1)
        assert again == first
        assert platform.server.acknowledged == 1

    run(story())


def test_what_was_not_acknowledged_comes_again_where_the_platform_does_that() -> None:
    async def story() -> None:
        platform = MemoryPlatform(options=MemoryOptions(redelivers=True))
        place = await platform.direct("ada")
        async with aclosing(platform.adapter().receive({})) as batches:
            await next_of(batches)
            await platform.say(place, "ada", "hello")
            batch = await next_of(batches)
        [again] = await received(platform.adapter(), dict(batch.cursors), 1)
        assert again == batch.events[0]

    run(story())


@pytest.mark.parametrize(
    ("repeat", "copies", "finds"), [("key", 1, True), ("look", 2, True), ("placeholder", 2, False)]
)
def test_a_message_sent_twice_with_one_key(repeat: Repeat, copies: int, finds: bool) -> None:
    async def story() -> None:
        platform = MemoryPlatform(replace(TRAITS, repeat=repeat))
        adapter, route = platform.adapter(), Route(await platform.direct("ada"))
        await platform.fail("drop after")
        with pytest.raises(Unreachable):
            await adapter.send(route, Outgoing("hello"), "k1")
        first = platform.seen(route.place)[0].id
        assert await adapter.find_sent(route, "k1") == (first if finds else None)
        sent = await adapter.send(route, Outgoing("hello"), "k1")
        assert len(platform.seen(route.place)) == copies
        assert (sent == first) == (copies == 1)

    run(story())


def test_a_key_is_forgotten_after_its_time() -> None:
    async def story() -> None:
        clock = FakeClock()
        platform = MemoryPlatform(replace(TRAITS, key_seconds=60.0), clock=clock)
        adapter, route = platform.adapter(), Route(await platform.direct("ada"))
        first = await adapter.send(route, Outgoing("hello"), "k1")
        clock.advance(59)
        assert await adapter.send(route, Outgoing("hello"), "k1") == first
        clock.advance(2)
        assert await adapter.send(route, Outgoing("hello"), "k1") != first

    run(story())


def test_the_faults_that_take_nothing() -> None:
    async def story() -> None:
        platform = MemoryPlatform()
        adapter, route = platform.adapter(), Route(await platform.direct("ada"))
        for fault, error in (("slow down", SlowDown), ("drop before", NotTaken), ("refuse", SendRefused)):
            await platform.fail(fault)  # type: ignore[arg-type]
            with pytest.raises(error):
                await adapter.send(route, Outgoing("hello"), "k1")
        assert platform.seen(route.place) == []
        assert [each.taken for each in platform.calls(route.place.chat)] == [False] * 3

    run(story())


def test_limits_are_enforced_for_a_chat_and_for_the_account() -> None:
    async def story() -> None:
        clock = FakeClock()
        traits = AdapterTraits(max_size=100, repeat="key", chat_seconds=2.0, account_per_second=3.0)
        platform = MemoryPlatform(traits, clock=clock, options=MemoryOptions(enforces_limits=True))
        adapter = platform.adapter()
        routes = [Route(await platform.direct(name)) for name in ("a", "b", "c", "d")]
        await adapter.send(routes[0], Outgoing("one"), "k1")
        clock.advance(0.5)
        with pytest.raises(SlowDown) as chat:
            await adapter.show_typing(routes[0])
        assert (chat.value.seconds, chat.value.whole_account) == (1.5, False)
        await adapter.send(routes[1], Outgoing("one"), "k2")
        await adapter.send(routes[2], Outgoing("one"), "k3")
        with pytest.raises(SlowDown) as account:
            await adapter.send(routes[3], Outgoing("one"), "k4")
        assert (account.value.seconds, account.value.whole_account) == (0.5, True)
        clock.advance(1.5)
        await adapter.show_typing(routes[0])
        assert [(each.kind, each.at, each.taken) for each in platform.calls(routes[0].place.chat)] == [
            ("send", 0.0, True),
            ("typing", 0.5, False),
            ("typing", 2.0, True),
        ]

    run(story())


def test_typing_ends_by_time_by_a_message_or_at_once() -> None:
    async def story() -> None:
        clock = FakeClock()
        platform = MemoryPlatform(clock=clock)
        adapter, route = platform.adapter(), Route(await platform.direct("ada"))
        await adapter.show_typing(route)
        assert platform.is_typing(route.place)
        clock.advance(TRAITS.typing_seconds)
        assert not platform.is_typing(route.place)
        await adapter.show_typing(route)
        await adapter.stop_typing(route)
        assert not platform.is_typing(route.place)
        await adapter.show_typing(route)
        await adapter.send(route, Outgoing("done"), "k1")
        assert not platform.is_typing(route.place)

    run(story())


def test_people_press_buttons_reply_mention_and_send_files(tmp_path: Path) -> None:
    async def story() -> None:
        platform = MemoryPlatform()
        adapter, place = platform.adapter(), await platform.group(["ada", "bob"])
        thread = await platform.thread(place)
        cursors: dict[str, str] = {}
        await received(adapter, cursors, 0)
        sent = await adapter.send(Route(thread), Outgoing("sure?", (Button("Yes", "yes:1"),)), "k1")
        await platform.press(place, "ada", sent, "yes:1")
        await platform.say(thread, "bob", "no", reply_to=sent)
        await platform.say(place, "bob", "and you", mention=True)
        await platform.bot_says(place, "weather", "rain")
        await platform.send_file(place, "ada", "a.txt", b"content")
        press, reply, mention, bot, file = await received(adapter, cursors, 5)
        assert (press.kind, press.text, press.message_id, press.place) == ("press", "yes:1", sent, thread)
        assert (reply.is_mention, reply.reply_to, reply.quoted, reply.place) == (True, sent, "sure?", thread)
        assert (mention.is_mention, mention.text, mention.is_direct) == (True, "and you", False)
        assert bot.sender.is_bot
        assert not file.sender.is_bot
        await adapter.confirm_press(press, "noted")
        assert platform.server.press_notes == [(press.press_token, "noted")]
        await adapter.download(file.files[0], tmp_path / "got", 7)
        assert (tmp_path / "got").read_bytes() == b"content"
        with pytest.raises(FileTooLarge):
            await adapter.download(file.files[0], tmp_path / "not", 6)
        assert len(await adapter.history(place, file.message_id, 10)) == 2
        with pytest.raises(LookupError):
            await platform.press(place, "ada", sent, "no such value")

    run(story())


def test_what_the_platform_never_takes() -> None:
    async def story() -> None:
        platform = MemoryPlatform(AdapterTraits(max_size=5, repeat="key"))
        adapter, place = platform.adapter(), await platform.direct("ada")
        for route in (Route(Place("nowhere")), Route(Place(place.chat, "no such thread"))):
            with pytest.raises(SendRefused):
                await adapter.send(route, Outgoing("hi"), "k1")
        with pytest.raises(SendRefused):
            await adapter.send(Route(place), Outgoing("too long"), "k1")
        await platform.remove_bot(place)
        with pytest.raises(SendRefused):
            await adapter.send(Route(place), Outgoing("hi"), "k1")
        platform.server.accepts_token = False
        with pytest.raises(SignInRefused):
            await adapter.connect()
        await adapter.close()
        await adapter.close()
        with pytest.raises(Unreachable):
            await adapter.connect()

    run(story())


def test_a_wait_ends_with_the_change_it_waits_for_or_with_its_deadline() -> None:
    async def story() -> None:
        platform = MemoryPlatform()
        adapter, route = platform.adapter(), Route(await platform.direct("ada"))
        waiting = asyncio.create_task(platform.until(lambda: len(platform.seen(route.place)) == 1))
        await adapter.send(route, Outgoing("hello"), "k1")
        await waiting
        with pytest.raises(TimeoutError):
            await platform.until(lambda: False, seconds=0.01)

    run(story())
