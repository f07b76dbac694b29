"""The Discord adapter sends, edits and answers presses; each refusal is the port's own error."""

from pathlib import Path

import pytest

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.discord import DiscordAdapter
from holdfast.gateway.contract import (
    Adapter,
    ChatPlatformError,
    Command,
    FileTooLarge,
    NotTaken,
    Outgoing,
    Place,
    SendRefused,
    SignInRefused,
    SlowDown,
    Unreachable,
)
from holdfast.testing.chat_platform import ChatPlatform
from tests.gateway.discord_reader import StoringReader, reading, route, run, text
from tests.gateway.discord_server import DiscordPlatform

pytestmark = pytest.mark.slow  # the real library takes seconds to load


def test_the_adapter_and_its_platform_fit_the_contracts() -> None:
    async def story(platform: DiscordPlatform) -> None:
        under_test: ChatPlatform = platform
        adapter: Adapter = under_test.adapter()
        await adapter.close()

    run(story)


def test_a_reply_goes_to_its_message_and_pings_nobody_else() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        asked = await platform.say(place, "ann", "well?")
        adapter = platform.adapter()
        await adapter.send(route(place, asked), text("hi @everyone and <@123>"), "key")
        await adapter.send(route(place, "4711"), text("to a message that is gone"), "other key")
        _, reply, plain = await platform.messages(place)
        assert (reply.text, reply.reply_to, reply.by_bot) == ("hi @everyone and <@123>", asked, True)
        assert (plain.text, plain.reply_to) == ("to a message that is gone", "")
        for body in platform.bodies:
            assert body["allowed_mentions"] == {"parse": [], "replied_user": True}
        assert "@everyone" not in platform.world.messages[place.chat][1]["content"]
        await adapter.close()

    run(story)


def test_the_same_key_makes_one_message() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        await platform.fail("drop after")
        adapter = platform.adapter()
        with pytest.raises(Unreachable):
            await adapter.send(route(place), text("once"), "key")
        again = await adapter.send(route(place), text("once"), "key")
        other = await adapter.send(route(place), text("once"), "another key")
        assert [seen.id for seen in await platform.messages(place)] == [again, other]
        assert all(len(body["nonce"]) <= 25 for body in platform.bodies)
        await adapter.close()

    run(story)


def test_a_message_that_a_person_deleted_can_be_sent_once_more_with_its_key() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        first = await adapter.send(route(place), text("a preview"), "key")
        await adapter.delete(route(place), first)
        again = await adapter.send(route(place), text("the answer"), "key")
        assert await adapter.send(route(place), text("the answer"), "key") == again
        assert await adapter.find_sent(route(place), "key") == again
        assert [seen.id for seen in await platform.messages(place)] == [again]
        await adapter.close()

    run(story)


def test_a_key_that_discord_forgot_is_found_in_the_history() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        await platform.fail("drop after")
        adapter = platform.adapter()
        with pytest.raises(Unreachable):
            await adapter.send(route(place), text("see https://example.org/a"), "key")
        await adapter.close()
        platform.forget_nonces()
        copied = platform.world.messages[place.chat][0]["content"]
        await platform.say(place, "ann", copied)

        restarted = platform.adapter()
        (sent, _) = await platform.messages(place)
        assert await restarted.find_sent(route(place), "key") == sent.id
        assert await restarted.find_sent(route(place), "another key") is None
        await restarted.delete(route(place), sent.id)
        assert await restarted.find_sent(route(place), "key") is None, "a person's copy is not ours"
        assert copied.startswith("see https://example.org/a ")
        await restarted.close()

    run(story)


def test_a_sent_message_is_found_behind_many_others() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        adapter = platform.adapter()
        sent = await adapter.send(route(place), text("hello"), "key")
        for number in range(450):
            await platform.say(place, "ann", str(number))
        assert await adapter.find_sent(route(place), "key") == sent
        await adapter.close()

    run(story)


def test_the_largest_message_fits() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        most = "x" * adapter.traits.max_size
        assert adapter.measure(most) == adapter.traits.max_size
        await adapter.send(route(place), text(most), "key")
        with pytest.raises(SendRefused):
            await adapter.send(route(place), text(most + "x"), "other key")
        assert adapter.measure("😀") == 2
        await adapter.close()

    run(story)


@pytest.mark.parametrize(
    ("fault", "error", "is_taken"),
    [
        ("slow down", SlowDown, False),
        ("drop before", Unreachable, False),
        ("drop after", Unreachable, True),
        ("refuse", SendRefused, False),
        ("trouble", Unreachable, False),
    ],
)
def test_each_fault_has_its_error_and_is_not_repeated(
    fault: str, error: type[ChatPlatformError], is_taken: bool
) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        platform.faults.append(fault)
        with pytest.raises(error) as raised:
            await adapter.send(route(place), text("hello"), "key")
        assert len(await platform.messages(place)) == is_taken
        assert platform.calls.count(f"POST /channels/{place.chat}/messages") == 1
        if isinstance(raised.value, SlowDown):
            assert (raised.value.seconds, raised.value.whole_account) == (0.25, False)
        sent = await adapter.send(route(place), text("hello"), "key")
        assert [seen.id for seen in await platform.messages(place)] == [sent]
        await adapter.close()

    run(story)


def test_a_limit_of_the_whole_account_says_so() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        platform.faults.append("slow down everywhere")
        with pytest.raises(SlowDown) as raised:
            await adapter.send(route(place), text("hello"), "key")
        assert raised.value.whole_account
        await adapter.close()

    run(story)


def test_nobody_there_a_wrong_token_and_an_unknown_chat() -> None:
    async def story(platform: DiscordPlatform) -> None:
        adapter = platform.adapter()
        with pytest.raises(SendRefused, match="Unknown Channel"):
            await adapter.send(route(Place("4711")), text("hello"), "key")
        stranger = DiscordAdapter(Secret(platform.token + "x"), api_url=f"{platform.url}/api/v10")
        with pytest.raises(SignInRefused):
            await stranger.send(route(Place("4711")), text("hello"), "key")
        await stranger.close()
        await platform.close()
        with pytest.raises(NotTaken):
            await adapter.send(route(Place("4711")), text("hello"), "key")
        await adapter.close()

    run(story)


def test_a_message_is_edited_reacted_to_and_deleted() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        own = await adapter.send(route(place), text("working", "stop"), "key")
        for _ in range(2):
            await adapter.edit(route(place), own, text("**done** @here"))
            await adapter.react(route(place), own, "👍")
        (seen,) = await platform.messages(place)
        assert (seen.text, seen.buttons) == ("done @here", ())
        assert platform.world.reactions == [(own, "👍")]
        for _ in range(2):
            await adapter.delete(route(place), own)
        assert await platform.messages(place) == []
        with pytest.raises(SendRefused):
            await adapter.edit(route(place), own, text("too late"))
        await adapter.close()

    run(story)


def test_typing_is_shown_until_the_message_comes() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        await adapter.show_typing(route(place))
        assert platform.is_typing(place)
        await adapter.stop_typing(route(place))
        await adapter.send(route(place), Outgoing("here", is_silent=True), "key")
        assert not platform.is_typing(place)
        assert platform.bodies[-1]["flags"] == 1 << 12
        await adapter.close()

    run(story)


def test_a_press_is_received_after_a_restart_and_confirmed_once() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        before = platform.adapter()
        asked = await before.send(route(place), text("Run it?", *"abcdefg"), "key")
        await before.close()
        async with reading(platform) as reader:
            await platform.press(place, "ann", asked, "b")
            (press,) = await reader.received(1)
            assert (press.kind, press.text, press.message_id) == ("press", "b", asked)
            assert (press.place, press.sender.id) == (place, platform.world.user("ann")["id"])
            for _ in range(2):
                await reader.adapter.confirm_press(press, "It runs.")
        ((own, note),) = platform.notes
        assert (own, note["type"]) == (press.id, 4)
        assert (note["data"]["content"], note["data"]["flags"]) == ("It runs.", 1 << 6)
        assert [len(row["components"]) for row in platform.bodies[0]["components"]] == [5, 2]

    run(story)


def test_a_press_that_was_stored_and_acknowledged_does_not_come_again() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        adapter = platform.adapter()
        asked = await adapter.send(route(place), text("Run it?", "yes"), "key")
        batches = adapter.receive({})
        await anext(batches)
        await platform.press(place, "ann", asked, "yes")
        pressed = await anext(batches)
        assert [event.kind for event in pressed.events] == ["press"]
        await pressed.acknowledge()
        await batches.aclose()
        reader = StoringReader(adapter)
        await reader.caught_up()
        await platform.say(place, "ann", "next")
        await reader.received(1)
        await reader.stop()
        assert reader.texts == ["next"]

    run(story)


def test_a_press_that_is_too_old_to_answer_is_a_success() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            asked = await reader.adapter.send(route(place), text("Run it?", "yes"), "key")
            await platform.press(place, "ann", asked, "yes")
            (press,) = await reader.received(1)
            platform.expire_interactions()
            await reader.adapter.confirm_press(press, "It runs.")
        assert platform.notes == []

    run(story)


def test_a_press_during_a_broken_connection_comes_with_the_resumed_session() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        async with reading(platform) as reader:
            asked = await reader.adapter.send(route(place), text("Run it?", "yes"), "key")
            await platform.kick()
            await platform.press(place, "ann", asked, "yes")
            (press,) = await reader.received(1)
        assert (press.kind, press.text) == ("press", "yes")

    run(story)


def test_a_chosen_command_is_a_message_that_is_answered_when_it_is_stored() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann"])
        async with reading(platform) as reader:
            await reader.adapter.set_commands(
                [Command("model", "Choose " * 30), Command("new", "Begin anew")]
            )
            await platform.choose_command(place, "ann", "model", "small one")
            (event,) = await reader.received(1)
        assert (event.kind, event.text, event.is_mention) == ("message", "/model small one", True)
        assert event.message_id == ""
        ((own, note),) = platform.notes
        assert (own, note["data"]["flags"]) == (event.id, 1 << 6)
        assert [len(command["description"]) for command in platform.commands] == [100, 10]

    run(story)


def test_files_go_up_and_down_within_their_limits(tmp_path: Path) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        report, large, target = tmp_path / "report.txt", tmp_path / "large.bin", tmp_path / "got.txt"
        report.write_bytes(b"all is well")
        with large.open("wb") as out:
            out.truncate(10_000_001)
        async with reading(platform) as reader:
            adapter = reader.adapter
            await adapter.send(route(place), Outgoing("the report", file=report), "key")
            await adapter.send(route(place), Outgoing("", file=report), "other key")
            with pytest.raises(FileTooLarge):
                await adapter.send(route(place), Outgoing("", file=large), "third key")
            seen = await platform.messages(place)
            assert [(one.text, one.file) for one in seen] == [
                ("the report", b"all is well"),
                ("", b"all is well"),
            ]

            await platform.send_file(place, "ann", "notes.txt", b"buy milk")
            (event,) = await reader.received(1)
            (file,) = event.files
            assert (file.name, file.media_type, file.size) == ("notes.txt", "text/plain", 8)
            await adapter.download(file, target, most=8)
            assert target.read_bytes() == b"buy milk"
            with pytest.raises(FileTooLarge):
                await adapter.download(file, target, most=7)

    run(story)


def test_a_file_that_is_larger_than_it_said_is_cut_off_and_removed(tmp_path: Path) -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.direct("ann")
        target = tmp_path / "got.txt"
        async with reading(platform) as reader:
            own = await platform.send_file(place, "ann", "notes.txt", b"x" * 8)
            (event,) = await reader.received(1)
            (file,) = event.files
            platform.world.files[file.ref.split("/")[2]] = b"x" * 9
            with pytest.raises(FileTooLarge):
                await reader.adapter.download(file, target, most=8)
            assert not target.exists()
            platform.world.messages[place.chat] = []
            with pytest.raises(SendRefused, match="Unknown Message"):
                await reader.adapter.download(file, target, most=8)
        assert event.id == own

    run(story)


def test_the_history_before_a_message_is_oldest_first() -> None:
    async def story(platform: DiscordPlatform) -> None:
        place = await platform.group(["ann", "bob"])
        for word in ("one", "two", "three"):
            await platform.say(place, "ann", word)
        asked = await platform.say(place, "bob", "what do you think?", mention=True)
        adapter = platform.adapter()
        found = await adapter.history(place, asked, 2)
        assert [event.text for event in found] == ["two", "three"]
        assert [event.text for event in await adapter.history(place, "", 10)][-1] == "what do you think?"
        await adapter.close()

    run(story)
