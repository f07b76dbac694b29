"""What the Slack adapter finds of what was said while nobody listened."""

import asyncio

import pytest

from holdfast.gateway.contract import ChatPlatformError, Outgoing, Place, Route
from tests.gateway.slack_platform import SlackPlatform
from tests.gateway.slack_receiver import Receiver, receiving
from tests.gateway.slack_workspace import BOT_USER
from tests.gateway.test_slack import play


def test_what_was_said_during_an_absence_comes_first_in_order_and_from_every_chat() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group, direct = await platform.group(["ann", "bea"]), await platform.direct("ann")
        async with receiving(platform) as before:
            await platform.say(group, "ann", "old in the group")
            await platform.say(direct, "ann", "old and direct")
            await before.count(2)
        platform.server.page_size = 2
        texts = [f"missed {number}" for number in range(7)]
        for text in texts:
            await platform.say(group, "bea", text)
        await platform.say(direct, "ann", "missed too")
        new = await platform.direct("cid")
        await platform.say(new, "cid", "a first word")
        async with receiving(platform, before.cursors) as receiver:
            chats = {chat: _texts_in(receiver, chat) for chat in (group.chat, direct.chat, new.chat)}
            assert chats == {
                group.chat: texts,
                direct.chat: ["missed too"],
                new.chat: ["a first word"],
            }
            await platform.say(group, "bea", "live")
            await receiver.until(lambda: receiver.texts[-1] == "live")
        async with receiving(platform, receiver.cursors) as after:
            assert after.texts == []

    play(scenario)


def test_replies_in_threads_are_caught_up_with_in_the_order_of_the_channel() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group = await platform.group(["ann"])
        async with receiving(platform) as before:
            old = await platform.say(group, "ann", "an old topic")
            await platform.say(group, "ann", "another")
            await before.adapter.send(Route(Place(group.chat, old)), Outgoing("I am in it"), "k1")
            await before.count(2)
        await platform.say(group, "ann", "reply 1", reply_to=old)
        new = await platform.say(group, "ann", "a new topic")
        await platform.say(group, "ann", "reply 2", reply_to=old)
        await platform.say(group, "ann", "reply 3", reply_to=new)
        await platform.say(group, "ann", "reply 4", reply_to=old)
        platform.server.page_size = 1
        async with receiving(platform, before.cursors) as receiver:
            places = [(event.text, event.place.thread) for event in receiver.events.values()]
            assert places == [
                ("reply 1", old),
                ("a new topic", ""),
                ("reply 2", old),
                ("reply 3", new),
                ("reply 4", old),
            ]

    play(scenario)


def test_nothing_of_the_past_is_received_at_the_first_start() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        await platform.say(place, "ann", "long ago")
        async with receiving(platform) as first:
            assert first.texts == []
        async with receiving(platform, first.cursors) as second:
            assert second.texts == []
            await platform.say(place, "ann", "now")
            await second.count(1)
            assert second.texts == ["now"]

    play(scenario)


def test_live_events_wait_until_the_catch_up_is_done() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as before:
            await platform.say(place, "ann", "old")
            await before.count(1)
        await platform.say(place, "ann", "missed")
        gate = platform.server.gates["users.info"] = asyncio.Event()
        receiver = Receiver(platform.slack_adapter(), before.cursors)
        try:
            catching_up = asyncio.ensure_future(receiver.catch_up())
            # The history is read, and the name of the one who spoke is asked for.
            await platform.server.until(lambda: platform.server.called("users.info") == 2)
            acknowledged = len(platform.server.acknowledged)
            await platform.say(place, "ann", "live")
            await platform.server.flush()
            gate.set()
            await catching_up
            assert receiver.texts == ["missed"]
            assert len(platform.server.acknowledged) == acknowledged
            await receiver.count(2)
            assert receiver.texts == ["missed", "live"]
        finally:
            await receiver.close()

    play(scenario)


def test_a_message_that_comes_live_and_out_of_the_history_is_received_once() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as before:
            await platform.say(place, "ann", "old")
            await before.count(1)
        gate = platform.server.gates["conversations.history"] = asyncio.Event()
        receiver = Receiver(platform.slack_adapter(), before.cursors)
        try:
            catching_up = asyncio.ensure_future(receiver.catch_up())
            await platform.server.until(lambda: platform.server.called("conversations.history") == 1)
            await platform.say(place, "ann", "in both")
            await platform.server.flush()
            gate.set()
            await catching_up
            await platform.say(place, "ann", "after")
            await receiver.until(lambda: "after" in receiver.texts)
            assert receiver.texts == ["in both", "after"]
            assert len(receiver.deliveries) == 2
            await platform.server.until(lambda: len(platform.server.acknowledged) == 3)
        finally:
            await receiver.close()

    play(scenario)


def test_a_slow_down_during_the_catch_up_is_waited_out() -> None:
    waits: list[float] = []

    async def pause(seconds: float) -> None:
        waits.append(seconds)

    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as before:
            await platform.say(place, "ann", "old")
            await before.count(1)
        await platform.say(place, "ann", "missed")
        platform.server.fail("conversations.history", "slow down", times=3)
        platform.server.fail("apps.connections.open", "slow down")
        adapter = platform.slack_adapter(pause=pause)
        receiver = Receiver(adapter, before.cursors)
        with pytest.raises(ChatPlatformError, match="1 s"):
            await adapter.connect()
        platform.server.fail("users.conversations", "slow down")
        await receiver.catch_up()
        assert receiver.texts == ["missed"]
        assert waits == [1.0] * 4
        await receiver.close()

    play(scenario)


def test_a_channel_that_the_bot_was_removed_from_does_not_hold_up_the_others() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        gone, kept = await platform.group(["ann"]), await platform.group(["ann"])
        async with receiving(platform) as before:
            for place in (gone, kept):
                await platform.say(place, "ann", "old")
            await before.count(2)
        platform.workspace.channels[gone.chat].members.remove(BOT_USER)
        platform.server.fail("users.conversations", "missing_scope")
        await platform.say(kept, "ann", "missed")
        async with receiving(platform, before.cursors) as receiver:
            assert receiver.texts == ["missed"]

    play(scenario)


def test_a_reply_in_a_thread_that_began_days_before_is_found() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group = await platform.group(["ann"])
        platform.workspace.days_ago = 5
        old = await platform.say(group, "ann", "a topic of last week")
        platform.workspace.days_ago = 0
        async with receiving(platform) as before:
            await platform.say(group, "ann", "of today")
            await before.count(1)
        await platform.say(group, "ann", "late", reply_to=old)
        async with receiving(platform, before.cursors) as receiver:
            (event,) = receiver.events.values()
            assert (event.text, event.place.thread) == ("late", old)

    play(scenario)


def _texts_in(receiver: Receiver, chat: str) -> list[str]:
    return [event.text for event in receiver.events.values() if event.place.chat == chat]
