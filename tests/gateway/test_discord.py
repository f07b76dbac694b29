"""The Discord adapter receives: in order, once, after every kind of break, with the real library."""

import logging

import pytest

from holdfast.gateway.contract import Place
from tests.gateway.discord_reader import StoringReader, reading, route, run, text
from tests.gateway.discord_server import DiscordPlatform, answer, too_many

pytestmark = pytest.mark.slow  # the real library takes seconds to load


def test_a_message_says_who_where_and_when() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            own = await platform.say(place, "ann", "hello")
            (event,) = await reader.received(1)
        assert (event.id, event.message_id, event.text, event.place) == (own, own, "hello", place)
        assert (event.sender.id, event.sender.name) == (platform.world.user("ann")["id"], "Ann")
        assert event.is_direct
        assert not event.is_mention
        assert not event.sender.is_bot
        assert event.sent // 1000 == (int(own) >> 22) + 1_420_070_400_000
        assert reader.channels == {place.chat: own}
        assert platform.sessions.heartbeats > 0

    run(story)


def test_an_edit_is_left_out_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place, ann = await platform.direct("ann"), platform.world.user("ann")
        async with reading(platform) as reader:
            own = await platform.say(place, "ann", "helo")
            edit = {"id": own, "channel_id": place.chat, "content": "hello", "author": ann}
            await platform.sessions.dispatch("MESSAGE_UPDATE", edit)  # a preview of a link
            await platform.sessions.dispatch("MESSAGE_UPDATE", {**edit, "edited_timestamp": "2026-11-02"})
            await platform.say(place, "ann", "bye")
            assert [each.text for each in await reader.received(2)] == ["helo", "bye"]
            left_out = [each for each in caplog.records if each.message == "discord.left_out"]
            assert [each.cause for each in left_out] == [f"an edit of {own}"]  # type: ignore[attr-defined]

    caplog.set_level(logging.INFO, logger="holdfast.gateway")
    run(story)


def test_in_a_group_the_bot_is_named_or_answered() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann", "bob"])
        async with reading(platform) as reader:
            sent = await reader.adapter.send(route(place), text("I can help"), "key")
            first = await platform.say(place, "ann", f"ask <@{platform.world.user('bob')['id']}>")
            await platform.say(place, "ann", "are you there?", mention=True)
            await platform.say(place, "bob", "please do", reply_to=sent)
            await platform.say(place, "bob", "no, you", reply_to=first)
            plain, mention, reply, other = await reader.received(4)
        assert (plain.text, plain.is_mention, plain.is_direct) == ("ask @bob", False, False)
        assert (mention.text, mention.is_mention, mention.chat_title) == ("are you there?", True, "talk")
        assert (reply.is_mention, reply.reply_to, reply.quoted) == (True, sent, "I can help")
        assert (other.is_mention, other.reply_to, other.quoted) == (False, first, plain_quote(platform))

    def plain_quote(platform: DiscordPlatform) -> str:
        return f"ask <@{platform.world.user('bob')['id']}>"

    run(story)


def test_a_thread_is_a_thread_of_its_channel_and_has_its_own_cursor() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        thread = await platform.thread(place)
        async with reading(platform) as reader:
            said = await platform.say(thread, "ann", "in here")
            (event,) = await reader.received(1)
            await reader.adapter.send(route(event.place, reply_to=said), text("yes"), "key")
        assert event.place == Place(place.chat, thread.thread)
        assert reader.cursors[thread.thread] >= said
        assert [seen.text for seen in await platform.messages(thread)] == ["in here", "yes"]
        assert await platform.messages(place) == []

    run(story)


@pytest.mark.parametrize("on", ["the newest message", "an older message", "no message"])
def test_a_thread_that_was_opened_during_an_absence_is_caught_up_with(on: str) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        async with reading(platform) as before:
            older = await platform.say(place, "ann", "older")
            newest = await before.adapter.send(route(place), text("my answer"), "key")
            await before.until(lambda: before.channels == {place.chat: newest})
        message = {"the newest message": newest, "an older message": older, "no message": ""}[on]
        thread = await platform.thread(place, message)
        said = [await platform.say(thread, "ann", word) for word in ("one", "two")]
        async with reading(platform, before.cursors) as after:
            assert [(event.id, event.place) for event in after.events] == [(own, thread) for own in said]
            assert after.cursors[thread.thread] == said[-1]
        async with reading(platform, after.cursors) as again:
            assert again.events == []

    run(story)


def test_the_first_message_ever_in_a_channel_is_not_missed() -> None:
    """A channel in which nobody spoke to the bot before has no cursor of its own."""

    async def story(platform: DiscordPlatform) -> None:
        silent, old = await platform.group(["ann"]), await platform.group(["bob"])
        await platform.say(old, "bob", "before the first start")
        async with reading(platform) as before:
            pass
        said = [await platform.say(place, "ann", "hello", mention=True) for place in (silent, old)]
        fresh = await platform.group(["ann"])
        thread = await platform.thread(fresh)
        said += [await platform.say(thread, "ann", "in here")]
        async with reading(platform, before.cursors) as after:
            assert sorted(event.id for event in after.events) == sorted(said)
        async with reading(platform, after.cursors) as again:
            assert again.events == []

    run(story)


def test_without_cursors_nothing_of_the_past_comes() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        await platform.say(place, "ann", "long ago")
        async with reading(platform) as reader:
            await platform.say(place, "ann", "now")
            await reader.received(1)
        assert reader.texts == ["now"]

    run(story)


def test_what_was_said_during_an_absence_comes_first_by_pages_and_in_order() -> None:
    async def story(platform: DiscordPlatform) -> None:
        ann, talk = await platform.direct("ann"), await platform.group(["bob"])
        async with reading(platform) as before:
            await platform.say(ann, "ann", "a0")
            await platform.say(talk, "bob", "b0")
            await before.received(2)
        missed = [f"a{number}" for number in range(1, 251)]
        for word in missed:
            await platform.say(ann, "ann", word)
        await platform.say(talk, "bob", "b1")
        async with reading(platform, before.cursors) as after:
            assert [one for one in after.texts if one.startswith("a")] == missed
            assert [one for one in after.texts if one.startswith("b")] == ["b1"]
            assert [batch.caught_up for batch in after.batches] == [False] * 4 + [True]
            await platform.say(ann, "ann", "live")
            await after.received(252)
        assert after.texts[-1] == "live"

    run(story)


def test_a_live_message_does_not_move_the_cursor_past_the_gap() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as before:
            await platform.say(place, "ann", "first")
            await before.received(1)
        await platform.say(place, "ann", "while it was down")
        platform.history_gate.clear()
        platform.history_asked.clear()
        reader = StoringReader(platform.adapter(), before.cursors)
        await platform.history_asked.wait()
        await platform.say(place, "ann", "live")
        await reader.stop()
        assert reader.events == []
        assert reader.channels == before.channels

        platform.history_gate.set()
        again = StoringReader(platform.adapter(), reader.cursors)
        await again.received(2)
        await again.stop()
        assert again.texts == ["while it was down", "live"]

    run(story)


def test_live_messages_wait_for_the_end_of_the_catch_up() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place, other = await platform.direct("ann"), await platform.direct("bob")
        async with reading(platform) as before:
            await platform.say(place, "ann", "first")
            await before.received(1)
        await platform.say(place, "ann", "missed")
        platform.history_gate.clear()
        platform.history_asked.clear()
        reader = StoringReader(platform.adapter(), before.cursors)
        await platform.history_asked.wait()
        await platform.say(place, "ann", "live")
        await platform.say(other, "bob", "a new chat")
        assert reader.batches == []
        platform.history_gate.set()
        await reader.received(3)
        await reader.stop()
        assert reader.texts == ["missed", "live", "a new chat"]
        assert [batch.caught_up for batch in reader.batches] == [False, True, True]

    run(story)


@pytest.mark.parametrize("how", ["the line breaks", "Discord asks for it"])
def test_after_a_broken_connection_the_session_is_resumed_and_nothing_is_missing(how: str) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place, new = await platform.direct("ann"), await platform.direct("bob")
        async with reading(platform) as reader:
            await platform.say(place, "ann", "one")
            await reader.received(1)
            await (platform.kick if how == "the line breaks" else platform.sessions.ask_to_reconnect)()
            await platform.say(place, "ann", "two")
            await platform.say(new, "bob", "a first word while the line was down")
            await reader.received(3)
            await platform.say(place, "ann", "three")
            await reader.received(4)
        assert sorted(reader.texts[:3]) == ["a first word while the line was down", "one", "two"]
        assert reader.texts[3] == "three"
        assert len({event.id for event in reader.events}) == 4
        assert reader.breaks == 1
        assert (platform.sessions.identified, platform.sessions.resumed) == (1, 1)

    run(story)


def test_a_session_that_discord_forgot_is_caught_up_with_from_the_channels() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            await platform.say(place, "ann", "one")
            await reader.received(1)
            platform.sessions.forget()
            await platform.sessions.kick(4000)
            await platform.say(place, "ann", "two")
            await reader.received(2)
        assert reader.texts == ["one", "two"]
        assert (platform.sessions.identified, platform.sessions.resumed) == (2, 0)

    run(story)


def test_an_event_that_comes_twice_counts_once_and_reordered_ones_are_sorted() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            platform.sessions.hold()
            for word in ("one", "two", "three"):
                await platform.say(place, "ann", word)
            await platform.sessions.deliver_reversed()
            await reader.received(3)
            await platform.deliver_again()
            last = await platform.say(place, "ann", "four")
            await reader.received(4)
        assert reader.texts == ["one", "two", "three", "four"]
        assert reader.channels == {place.chat: last}

    run(story)


def test_a_message_that_comes_late_is_not_taken_for_a_double() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            platform.sessions.hold()
            await platform.say(place, "ann", "early")
            held = platform.sessions.take_held()
            newest = await platform.say(place, "ann", "newer")
            await reader.received(1)
            for name, payload in held:
                await platform.sessions.dispatch(name, payload)
            await reader.received(2)
        assert reader.texts == ["newer", "early"]
        assert reader.channels == {place.chat: newest}

    run(story)


def test_an_event_that_was_not_stored_is_delivered_again() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        first = adapter.receive({})
        await anext(first)
        await platform.say(place, "ann", "the store is down")
        assert [event.text for event in (await anext(first)).events] == ["the store is down"]
        await first.aclose()

        reader = StoringReader(adapter)
        await reader.received(1)
        await reader.stop()
        assert reader.texts == ["the store is down"]

    run(story)


def test_the_bots_own_messages_move_the_cursor_only() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            sent = await reader.adapter.send(route(place), text("good morning"), "key")
            await reader.until(lambda: reader.channels == {place.chat: sent})
        await platform.say(place, "ann", "good morning to you")
        async with reading(platform, reader.cursors) as after:
            assert after.texts == ["good morning to you"]
        assert reader.events == []

    run(story)


def test_a_channel_that_is_gone_does_not_stop_the_catch_up() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform, {"4711": "1", place.chat: "1"}) as reader:
            pass
        assert reader.cursors["4711"] == "1"

    run(story)


def test_slow_down_during_the_catch_up_is_waited_for() -> None:
    async def story(platform: DiscordPlatform) -> None:
        places = [await platform.direct(f"person{number}") for number in range(20)]
        said = [await platform.say(place, "ann", "missed") for place in places]
        platform.history_faults = [too_many(is_global=False), too_many(is_global=True)]
        async with reading(platform, {place.chat: "1" for place in places}) as reader:
            assert reader.channels == dict(zip([place.chat for place in places], said, strict=True))
        assert (len(reader.events), reader.breaks) == (20, 0)

    run(story)


def test_a_page_that_breaks_off_is_asked_for_again() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        await platform.say(place, "ann", "missed")
        platform.history_faults = [answer(502, {"message": "Bad Gateway"})]
        async with reading(platform, {place.chat: "1"}) as reader:
            assert (reader.texts, reader.breaks) == (["missed"], 1)
        assert platform.sessions.identified == 1

    run(story)
