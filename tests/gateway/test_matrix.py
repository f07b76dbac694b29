"""The Matrix adapter against a real Synapse: signing in and receiving."""

import asyncio
import logging
from dataclasses import replace

import pytest

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.matrix import MatrixAdapter, sign_in
from holdfast.gateway.contract import (
    Outgoing,
    Place,
    Route,
    SignInRefused,
    Unreachable,
)
from tests.gateway.matrix_platform import MatrixPlatform
from tests.gateway.matrix_story import next_message, on_matrix, received, receiving, started
from tests.gateway.synapse_server import PASSWORD, SynapseServer

pytestmark = pytest.mark.slow  # each worker starts a server, and installs it once


@on_matrix
async def test_a_password_gives_credentials_that_connect(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    signed_in = await sign_in(platform.server.url, platform.bot.user_id, Secret(PASSWORD))
    assert signed_in.user_id == platform.bot.user_id
    assert signed_in.device_id != platform.bot.device_id
    again = await sign_in(platform.server.url, platform.bot.user_id, Secret(PASSWORD), signed_in.device_id)
    assert again.device_id == signed_in.device_id
    other = MatrixAdapter(again)
    identity = await other.connect()
    await other.close()
    assert (identity.id, identity.name) == (platform.bot.user_id, "bot")
    assert platform.bot.user_id in identity.invite
    assert other.traits.max_upload == 2 * 1024 * 1024


@on_matrix
async def test_what_is_wrong_with_a_sign_in_is_said(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    with pytest.raises(SignInRefused, match="Invalid username or password"):
        await sign_in(platform.server.url, platform.bot.user_id, Secret("wrong"))
    with pytest.raises(SignInRefused, match="must be like"):
        await sign_in("ftp://somewhere", "bot", Secret("wrong"))
    for wrong, said in (
        (replace(platform.bot, token=Secret("wrong")), "refused the token"),
        (replace(platform.bot, device_id="OTHER"), "sign in again"),
    ):
        refused = MatrixAdapter(wrong)
        with pytest.raises(SignInRefused, match=said):
            await refused.connect()
        await refused.close()
    refused = MatrixAdapter(replace(platform.bot, token=Secret("wrong")))
    with pytest.raises(SignInRefused):
        await anext(refused.receive({}))
    await refused.close()


@on_matrix
async def test_messages_come_in_order_and_a_cursor_goes_on_after_them(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    await platform.say(place, "ann", "before the first start")
    async with receiving(adapter) as batches:
        await started(batches)
        ids = [await platform.say(place, "ann", f"number {number}") for number in range(5)]
        events = await received(batches, 5)
    assert [each.id for each in events] == ids
    assert [each.text for each in events] == [f"number {number}" for number in range(5)]
    assert all(each.is_direct and each.place == place and not each.is_mention for each in events)
    ann = platform.people["ann"]
    assert (events[0].sender.id, events[0].sender.name) == (ann.user_id, "ann")
    assert not events[0].sender.is_bot
    assert events[0].message_id == ids[0]
    assert 1_600_000_000 < events[0].sent / 1_000_000 < 10_000_000_000


@on_matrix
async def test_what_was_not_stored_is_delivered_again(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    async with receiving(adapter) as batches:
        cursor = await started(batches)
        said = await platform.say(place, "ann", "once")
        first = await next_message(batches)
    async with receiving(adapter, cursor) as batches:
        again = await anext(batches)
    assert [each.id for each in again.events] == [said] == [first.id]
    async with receiving(adapter, again.cursors[""]) as batches:
        assert (await anext(batches)).events == ()


@on_matrix
async def test_a_gap_is_filled_in_each_room_in_order(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    places = [await platform.direct("ann"), await platform.group(["ben", "cleo"])]
    async with receiving(adapter) as batches:
        cursor = await started(batches)
    wanted: dict[str, list[str]] = {place.chat: [] for place in places}
    for number in range(45):
        for place, person in zip(places, ("ann", "ben"), strict=True):
            wanted[place.chat].append(await platform.say(place, person, f"missed {number}"))
    async with receiving(adapter, cursor) as batches:
        batch = await anext(batches)
        assert batch.caught_up
        for place in places:
            assert [each.id for each in batch.events if each.place == place] == wanted[place.chat]
        live = await platform.say(places[0], "ann", "live")
        assert (await next_message(batches)).id == live
    assert any("/messages?" in each.path for each in platform.proxy.requests)


@on_matrix
async def test_an_invitation_is_accepted_and_what_was_said_since_is_received(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    async with receiving(adapter) as batches:
        cursor = await started(batches)
    place = await platform.room("ann", [], is_direct=True)
    said = [await platform.say(place, "ann", f"while it waits {number}") for number in range(30)]
    async with receiving(adapter, cursor) as batches:
        assert await started(batches)
        said += [await platform.say(place, "ann", f"after it came {number}") for number in range(30)]
        assert [each.id for each in await received(batches, len(said))] == said


@on_matrix
async def test_what_was_said_before_the_first_start_is_past_also_where_the_bot_was_invited(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.room("ann", [], is_direct=True)
    await platform.say(place, "ann", "before the first start")
    async with receiving(adapter) as batches:
        await started(batches)
        await adapter.send(Route(place), Outgoing("I came"), "1")
        said = await platform.say(place, "ann", "after it")
        assert (await next_message(batches)).id == said


@on_matrix
async def test_what_was_said_before_the_invitation_is_not_received(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    async with receiving(adapter) as batches:
        await started(batches)
        place = await platform.group(["ann", "ben"])
        path = f"/_matrix/client/v3/rooms/{place.chat}"
        ann = platform.people["ann"]
        await platform.ask(ann, "POST", f"{path}/kick", json={"user_id": platform.bot.user_id})
        await platform.say(place, "ann", "between us")
        await platform.ask(ann, "POST", f"{path}/invite", json={"user_id": platform.bot.user_id})
        said = await platform.say(place, "ann", "for all")
        message = await next_message(batches)
    assert message.id == said
    assert not message.is_direct
    assert message.chat_title == "room of ann, ben"


@on_matrix
async def test_a_room_is_direct_until_a_third_person_is_invited(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    path = f"/_matrix/client/v3/rooms/{place.chat}/invite"
    async with receiving(adapter) as batches:
        await started(batches)
        await platform.say(place, "ann", "alone")
        assert (await next_message(batches)).is_direct
        ben = platform.person("ben")
        await platform.ask(platform.people["ann"], "POST", path, json={"user_id": ben.user_id})
        await platform.say(place, "ann", "not alone")
        assert not (await next_message(batches)).is_direct


def test_only_messages_of_people_are_received_and_notices_are_of_bots(
    synapse: SynapseServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
        place = await platform.group(["ann", "ben"])
        async with receiving(adapter) as batches:
            await started(batches)
            await adapter.send(Route(place), Outgoing("my own"), "own")
            first = await platform.say(place, "ann", "first")
            edit = {
                "msgtype": "m.text",
                "body": "* edited",
                "m.new_content": {"msgtype": "m.text", "body": "edited"},
                "m.relates_to": {"rel_type": "m.replace", "event_id": first},
            }
            await platform.post(place, "ann", edit)
            reaction = {"m.relates_to": {"rel_type": "m.annotation", "event_id": first, "key": "👍"}}
            await platform.post(place, "ann", reaction, "m.reaction")
            await platform.post(place, "ann", {"msgtype": "m.notice", "body": "beep"})
            secret = {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "...", "session_id": "x"}
            encrypted = await platform.post(place, "ann", secret, "m.room.encrypted")
            events = await received(batches, 3)
        assert [each.sender.is_bot for each in events] == [False, True, False]
        assert [each.text for each in events][1:] == ["beep", ""]
        assert events[2].id == encrypted
        assert events[2].files == ()
        left_out = [each for each in caplog.records if each.message == "matrix.left_out"]
        assert [each.cause for each in left_out] == [f"an edit of {first}"]  # type: ignore[attr-defined]

    caplog.set_level(logging.INFO, logger="holdfast.gateway")
    on_matrix(story)(synapse)


@on_matrix
async def test_mentions_replies_and_threads_are_told_apart(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.group(["ann", "ben"])
    await adapter.connect()
    async with receiving(adapter) as batches:
        await started(batches)
        mine = await adapter.send(Route(place), Outgoing("**my** words"), "1")
        await platform.say(place, "ann", "what is this?", mention=True)
        await platform.say(place, "ann", "and that?", reply_to=mine)
        root = await platform.say(place, "ben", "between people")
        thread = Place(place.chat, root)
        await platform.say(thread, "ann", "in a thread")
        await platform.say(place, "ann", "an answer to ben", reply_to=root)
        await platform.say(Place(place.chat, mine), "ann", "in the bot's thread")
        mention, reply, _, threaded, other, in_mine = await received(batches, 6)
    assert (mention.text, mention.is_mention) == ("what is this?", True)
    assert (reply.reply_to, reply.is_mention, reply.quoted) == (mine, True, "**my** words")
    assert (threaded.place, threaded.reply_to, threaded.is_mention) == (thread, "", False)
    assert (other.reply_to, other.is_mention, other.quoted) == (root, False, "between people")
    assert (in_mine.place.thread, in_mine.is_mention) == (mine, True)


@on_matrix
async def test_a_kicked_connection_goes_on_from_its_cursor(
    platform: MatrixPlatform, adapter: MatrixAdapter
) -> None:
    place = await platform.direct("ann")
    async with receiving(adapter) as batches:
        cursor = await started(batches)
        waiting = asyncio.ensure_future(anext(batches))
        await platform.proxy.receiving.wait()
        await platform.kick()
        with pytest.raises(Unreachable):
            await waiting
    said = await platform.say(place, "ann", "meanwhile")
    async with receiving(adapter, cursor) as batches:
        assert (await next_message(batches)).id == said
        await platform.deliver_again()
        assert (await next_message(batches)).id == said


@on_matrix
async def test_the_messages_before_one_are_read(platform: MatrixPlatform, adapter: MatrixAdapter) -> None:
    place = await platform.group(["ann", "ben"])
    root = await platform.say(place, "ann", "root")
    answer = await adapter.send(Route(place), Outgoing("a preview"), "1")
    await adapter.edit(Route(place), answer, Outgoing("the answer"))
    thread = Place(place.chat, root)
    await platform.say(thread, "ben", "aside")
    later = await platform.say(place, "ben", "later")
    last = await platform.say(place, "ann", "last")
    before = await adapter.history(place, last, 10)
    assert [each.text for each in before] == ["root", "the answer", "later"]
    assert [each.sender.is_bot for each in before] == [False, True, False]
    assert [each.text for each in await adapter.history(place, last, 1)] == ["later"]
    assert [each.text for each in await adapter.history(place, later, 1)] == ["the answer"]
    assert [each.text for each in await adapter.history(place, "", 2)] == ["later", "last"]
    assert [each.text for each in await adapter.history(thread, "", 10)] == ["root", "aside"]
