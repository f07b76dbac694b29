"""The Slack adapter, by the real slack_sdk, against a small Slack: what it receives and what it sends."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from holdfast.gateway.contract import (
    Button,
    ChatFile,
    FileTooLarge,
    Outgoing,
    Place,
    Route,
    SendRefused,
)
from tests.gateway.slack_platform import SlackPlatform
from tests.gateway.slack_receiver import receiving, slack
from tests.gateway.slack_workspace import BOT_USER, TEAM

Scenario = Callable[[SlackPlatform], Awaitable[None]]


def play(scenario: Scenario) -> None:
    """Run a scenario on a Slack of its own."""

    async def on_slack() -> None:
        async with slack() as platform:
            await scenario(platform)

    asyncio.run(on_slack())


def test_signing_in_tells_who_the_bot_is() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        adapter = platform.slack_adapter()
        identity = await adapter.connect()
        assert (identity.id, identity.name) == (BOT_USER, "holdfast")
        assert "/invite @holdfast" in identity.invite
        assert not platform.server.open_sockets
        await adapter.close()
        await adapter.close()

    play(scenario)


def test_a_direct_message_says_who_said_what_and_where() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            ts = await platform.say(place, "ann", "is 1 < 2 & 3 > 2?")
            (event,) = await receiver.count(1)
            assert event.id == f"{TEAM}:{place.chat}:{ts}"
            assert (event.text, event.message_id, event.place) == ("is 1 < 2 & 3 > 2?", ts, place)
            assert (event.sender.id, event.sender.name) == (platform.workspace.person("ann"), "ann")
            assert event.is_direct
            assert not event.is_mention
            assert event.sent == int(ts.replace(".", ""))
            assert receiver.cursors[place.chat] == ts

    play(scenario)


def test_a_mention_arrives_as_two_envelopes_and_one_event() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann", "bea"])
        async with receiving(platform) as receiver:
            await platform.say(place, "ann", "what now?", mention=True)
            await platform.server.until(lambda: len(platform.server.sent) == 2)
            await platform.say(place, "bea", "end")
            events = await receiver.count(2)
            await platform.server.until(lambda: len(platform.server.acknowledged) == 3)
            assert [event.text for event in events] == ["what now?", "end"]
            assert [event.is_mention for event in events] == [True, False]
            assert not any(event.is_direct for event in events)
            assert events[0].chat_title == "group-1"

    play(scenario)


def test_a_mention_in_a_channel_begins_a_thread_for_its_answer_and_what_follows() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group, direct = await platform.group(["ann"]), await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.say(group, "ann", "before")
            asked = await platform.say(group, "ann", "a question", mention=True)
            await platform.say(direct, "ann", "alone", mention=True)
            before, question, alone = await receiver.count(3)
            assert (before.place, alone.place) == (group, direct)
            assert (question.place, question.reply_to) == (Place(group.chat, asked), "")
            for number in range(2):
                route = Route(question.place, "" if number else question.message_id)
                await receiver.adapter.send(route, Outgoing(f"part {number}"), f"k{number}")
            await platform.say(question.place, "ann", "and then?")
            assert (await receiver.count(4))[-1].place == question.place
            seen = [message.thread for message in await platform.messages(group) if message.by_bot]
            assert seen == [asked, asked]
            context = await receiver.adapter.history(question.place, asked, 5)
            assert [event.text for event in context] == ["before"]

    play(scenario)


def test_the_text_is_plain_and_names_people_and_channels() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann", "bea"])
        bea = platform.workspace.person("bea")
        async with receiving(platform) as receiver:
            await platform.write(
                place,
                "ann",
                f"<@{BOT_USER}>: ask <@{bea}> in <#C1|general>, <!here>, "
                "<https://a.test/?x=1&amp;y=2|the page> or <https://b.test>",
            )
            (event,) = await receiver.count(1)
            assert event.text == (
                "ask @bea in #general, @here, the page (https://a.test/?x=1&y=2) or https://b.test"
            )

    play(scenario)


def test_a_reply_in_a_thread_keeps_its_thread_and_answers_the_bot_under_its_message() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        async with receiving(platform) as receiver:
            own = await receiver.adapter.send(Route(place), Outgoing("a question"), "k1")
            first = await platform.say(place, "ann", "a topic")
            await platform.say(place, "ann", "an answer", reply_to=own)
            await platform.say(place, "ann", "a remark", reply_to=first)
            topic, answer, remark = await receiver.count(3)
            assert topic.place == place
            assert (answer.place, answer.reply_to, answer.is_mention) == (Place(place.chat, own), own, True)
            assert (remark.place, remark.is_mention) == (Place(place.chat, first), False)

    play(scenario)


def test_own_messages_are_left_out_and_those_of_other_bots_are_marked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        async with receiving(platform) as receiver:
            own = await receiver.adapter.send(Route(place), Outgoing("mine"), "k1")
            await receiver.adapter.edit(Route(place), own, Outgoing("mine still"))
            await receiver.adapter.delete(Route(place), own)
            await platform.write(
                place, "feed", "news", bot_id="B9", subtype="bot_message", username="The feed"
            )
            (event,) = await receiver.count(1)
            await platform.server.until(lambda: len(platform.server.acknowledged) == 4)
            assert (event.text, event.sender.name, event.sender.is_bot) == ("news", "The feed", True)

    caplog.set_level(logging.INFO, logger="holdfast.gateway")
    play(scenario)
    assert [record.message for record in caplog.records] == []


def test_edits_and_deletions_are_left_out_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            for subtype in ("message_changed", "message_deleted", "channel_topic"):
                await platform.write(place, "ann", "x", subtype=subtype)
            await platform.say(place, "ann", "kept")
            await receiver.count(1)
            await platform.server.until(lambda: len(platform.server.acknowledged) == 4)
            assert receiver.texts == ["kept"]

    caplog.set_level(logging.INFO, logger="holdfast.gateway")
    play(scenario)
    left_out = [record for record in caplog.records if record.message == "slack.left_out"]
    assert [record.subtype for record in left_out] == ["message_changed", "message_deleted"]  # type: ignore[attr-defined]


def test_a_slash_command_is_a_message_with_its_slash() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        async with receiving(platform) as receiver:
            await platform.command(place, "ann", "/model", "large &amp; slow")
            await platform.command(place, "ann", "/new")
            model, new = await receiver.count(2)
            assert (model.text, new.text) == ("/model large & slow", "/new")
            assert model.id != new.id
            assert (model.kind, model.is_mention, model.place) == ("message", True, place)
            assert place.chat not in receiver.cursors

    play(scenario)


def test_a_press_brings_the_value_and_is_confirmed_to_the_person_alone() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann", "bea"])
        async with receiving(platform) as receiver:
            buttons = (Button("Yes", "yes-1"), Button("No", "no-1"))
            asked = await receiver.adapter.send(Route(place), Outgoing("**Sure?**", buttons), "k1")
            await platform.press(place, "bea", asked, "no-1")
            (press,) = await receiver.count(1)
            assert (press.kind, press.text, press.message_id) == ("press", "no-1", asked)
            assert press.sender.id == platform.workspace.person("bea")
            await receiver.adapter.confirm_press(press, "Not done.")
            (note,) = platform.workspace.ephemeral
            assert (note["user"], note["text"]) == (press.sender.id, "Not done.")
            await receiver.adapter.confirm_press(press, "")
            platform.workspace.channels[place.chat].members.remove(press.sender.id)
            await receiver.adapter.confirm_press(press, "Too late.")
            assert len(platform.workspace.ephemeral) == 1

    play(scenario)


def test_buttons_stand_under_a_short_text_a_long_one_and_go_with_an_edit() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        buttons = (Button("A label that is far too long for a button " * 3, "a" * 64),)
        short = await adapter.send(Route(place), Outgoing("Sure?", buttons), "k1")
        long = await adapter.send(Route(place), Outgoing("word " * 700, buttons), "k2")
        seen = await platform.messages(place)
        assert [message.buttons for message in seen] == [("a" * 64,)] * 2
        for message_id in (short, long):
            await adapter.edit(Route(place), message_id, Outgoing("Done."))
        seen = await platform.messages(place)
        assert [(message.text, message.buttons) for message in seen] == [("Done.", ())] * 2
        await adapter.close()

    play(scenario)


def test_messages_go_where_the_route_says() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        group, direct = await platform.group(["ann"]), await platform.direct("ann")
        adapter = platform.slack_adapter()
        asked = await platform.say(group, "ann", "a question")
        alone = await platform.say(direct, "ann", "a question")
        await adapter.send(Route(Place(group.chat, asked)), Outgoing("in the thread"), "k1")
        await adapter.send(Route(group, reply_to=asked), Outgoing("under it"), "k2")
        await adapter.send(Route(group), Outgoing("in the channel"), "k3")
        await adapter.send(Route(direct, reply_to=alone), Outgoing("direct"), "k4")
        seen = {message.text: message.thread for message in await platform.messages(group)}
        assert seen == {"a question": "", "in the thread": asked, "under it": asked, "in the channel": ""}
        assert [message.thread for message in await platform.messages(direct)] == ["", ""]
        for key, route in (("k1", Route(Place(group.chat, asked))), ("k2", Route(group, reply_to=asked))):
            assert await adapter.find_sent(route, key) is not None
        assert await adapter.find_sent(Route(group), "k1") is None
        await adapter.close()

    play(scenario)


def test_what_a_model_writes_names_nobody_unasked_and_fetches_nothing() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        await adapter.send(Route(place), Outgoing("<!channel> see https://a.test/?secret=1"), "k1")
        _, arguments = platform.server.calls[-1]
        assert arguments["text"].startswith("&lt;!channel&gt;")
        assert (arguments["unfurl_links"], arguments["unfurl_media"]) == (False, False)
        await adapter.close()

    play(scenario)


def test_deleting_and_reacting_twice_are_successes() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.slack_adapter()
        said = await platform.say(place, "ann", "hello")
        sent = await adapter.send(Route(place), Outgoing("hi"), "k1")
        for _ in range(2):
            await adapter.react(Route(place), said, "👀")
            await adapter.react(Route(place), said, "✅")
            await adapter.delete(Route(place), sent)
        (message,) = platform.workspace.channels[place.chat].messages.values()
        assert message["reactions"] == ["eyes", "white_check_mark"]
        with pytest.raises(SendRefused, match="message_not_found"):
            await adapter.react(Route(place), sent, "👀")
        with pytest.raises(SendRefused, match="message_not_found"):
            await adapter.edit(Route(place), sent, Outgoing("hi again"))
        await adapter.close()

    play(scenario)


def test_a_file_is_sent_with_its_caption_into_its_thread(tmp_path: Path) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        adapter = platform.slack_adapter()
        asked = await platform.say(place, "ann", "the report?")
        route = Route(Place(place.chat, asked))
        report = tmp_path / "report.txt"
        report.write_bytes(b"all is well\n")
        sent = await adapter.send(route, Outgoing("Here it *is*.", file=report), "k1")
        bare = await adapter.send(route, Outgoing("", file=report), "k2")
        messages = {message.id: message for message in await platform.messages(route.place)}
        assert (messages[sent].text, messages[sent].file) == ("Here it is.", b"all is well\n")
        assert (messages[bare].text, messages[bare].file) == ("report.txt", b"all is well\n")
        assert {messages[sent].thread, messages[bare].thread} == {asked}
        assert await adapter.find_sent(route, "k1") == sent
        await adapter.close()

    play(scenario)


def test_a_persons_file_is_fetched_with_the_token_up_to_a_size(tmp_path: Path) -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.direct("ann")
        async with receiving(platform) as receiver:
            await platform.send_file(place, "ann", "notes.txt", b"0123456789")
            (event,) = await receiver.count(1)
            (file,) = event.files
            assert (file.name, file.media_type, file.size) == ("notes.txt", "text/plain", 10)
            target = tmp_path / "fetched"
            await receiver.adapter.download(file, target, 10)
            assert target.read_bytes() == b"0123456789"
            with pytest.raises(FileTooLarge):
                await receiver.adapter.download(file, tmp_path / "second", 9)
            with pytest.raises(SendRefused, match="file_not_found"):
                await receiver.adapter.download(ChatFile("F999", "x", "x/y"), tmp_path / "third", 9)

    play(scenario)
    assert [path.name for path in tmp_path.iterdir()] == ["fetched"]


def test_history_gives_the_last_messages_before_one_oldest_first() -> None:
    async def scenario(platform: SlackPlatform) -> None:
        place = await platform.group(["ann"])
        adapter = platform.slack_adapter()
        platform.server.page_size = 2
        ids = [await platform.say(place, "ann", f"m{number}") for number in range(6)]
        replies = [await platform.say(place, "ann", f"r{number}", reply_to=ids[0]) for number in range(5)]
        found = await adapter.history(place, ids[5], 3)
        assert [event.text for event in found] == ["m2", "m3", "m4"]
        thread = await adapter.history(Place(place.chat, ids[0]), replies[4], 3)
        assert [event.text for event in thread] == ["r1", "r2", "r3"]
        assert [event.text for event in await adapter.history(place, "", 2)] == ["m4", "m5"]
        await adapter.close()

    play(scenario)
