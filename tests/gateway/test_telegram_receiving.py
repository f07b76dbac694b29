"""Telegram: what is sent to the bot comes once it can be stored, again if it was not, and in order."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.gateway.adapters.telegram import TelegramAdapter
from holdfast.gateway.contract import NotTaken, SignInRefused, TakenElsewhere, Unreachable
from tests.gateway.telegram_chats import ApiError
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_server import FIRST_UPDATE, TOKEN
from tests.gateway.telegram_story import Reader, cursors_of_now, played


@played
async def test_the_first_start_receives_nothing_of_the_past(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    await platform.say(ada, "Ada", "long ago")
    await platform.say(ada, "Ada", "a while ago")
    reader = Reader(platform.adapter().receive({}))
    first = await reader.read()
    assert first.events == ()
    assert first.caught_up
    await platform.say(ada, "Ada", "now")
    assert [event.text for event in (await reader.read()).events] == ["now"]
    await reader.close()


@played
async def test_the_first_start_with_an_empty_queue_receives_what_comes_next(
    platform: TelegramPlatform,
) -> None:
    ada = await platform.direct("Ada")
    cursors = await cursors_of_now(platform)
    await platform.say(ada, "Ada", "hello")
    batch = await Reader(platform.adapter().receive(cursors)).read()
    assert [event.text for event in batch.events] == ["hello"]


@played
async def test_a_batch_that_was_not_stored_comes_again(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    cursors = await cursors_of_now(platform)
    await platform.say(ada, "Ada", "hello")
    killed = await Reader(platform.adapter().receive(cursors)).read()
    restarted = await Reader(platform.adapter().receive(cursors)).read()
    assert restarted.events == killed.events
    assert len(restarted.events) == 1


@played
async def test_a_batch_is_acknowledged_by_asking_for_the_next_and_not_before(
    platform: TelegramPlatform,
) -> None:
    ada = await platform.direct("Ada")
    reader = Reader(platform.adapter().receive(await cursors_of_now(platform)))
    await reader.read()
    await platform.say(ada, "Ada", "one")
    batch = await reader.read()
    await batch.acknowledge()
    assert platform.server.updates.unconfirmed == [FIRST_UPDATE]
    asking = asyncio.create_task(reader.read())
    await platform.server.updates.polled.wait()
    assert platform.server.updates.unconfirmed == []
    await platform.say(ada, "Ada", "two")
    assert [event.text for event in (await asking).events] == ["two"]


@played
async def test_a_stored_batch_that_was_not_acknowledged_does_not_come_again(
    platform: TelegramPlatform,
) -> None:
    ada = await platform.direct("Ada")
    killed = Reader(platform.adapter().receive(await cursors_of_now(platform)))
    await platform.say(ada, "Ada", "stored")
    await killed.read()
    await platform.say(ada, "Ada", "sent during the absence")
    batch = await Reader(platform.adapter().receive(killed.cursors)).read()
    assert [event.text for event in batch.events] == ["sent during the absence"]


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (3, [3]), (100, [100, 0]), (250, [100, 100, 50])])
@played
async def test_catching_up_brings_all_in_order_and_says_when_it_is_done(
    platform: TelegramPlatform, count: int, sizes: list[int]
) -> None:
    ada = await platform.direct("Ada")
    cursors = await cursors_of_now(platform)
    for number in range(count):
        await platform.say(ada, "Ada", str(number))
    reader = Reader(platform.adapter().receive(cursors))
    batches = [await reader.read() for _ in sizes]
    assert [len(batch.events) for batch in batches] == sizes
    assert [batch.caught_up for batch in batches] == [False] * (len(sizes) - 1) + [True]
    assert [event.text for batch in batches for event in batch.events] == [str(each) for each in range(count)]


@played
async def test_updates_out_of_order_are_sorted(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    cursors = await cursors_of_now(platform)
    for text in ("one", "two", "three"):
        await platform.say(ada, "Ada", text)
    platform.server.updates.reverse_next()
    batch = await Reader(platform.adapter().receive(cursors)).read()
    assert [event.text for event in batch.events] == ["one", "two", "three"]
    assert batch.cursors == {"": str(FIRST_UPDATE + 3)}


@played
async def test_what_is_delivered_again_has_the_same_ids(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    reader = Reader(platform.adapter().receive(await cursors_of_now(platform)))
    await reader.read()
    await platform.say(ada, "Ada", "one")
    once = await reader.read()
    asking = asyncio.create_task(reader.read())
    await platform.server.updates.polled.wait()
    await platform.deliver_again()
    assert (await asking).events == once.events
    await platform.say(ada, "Ada", "two")
    assert [event.text for event in (await reader.read()).events] == ["two"]


@played
async def test_a_numbering_that_began_anew_is_followed(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    platform.server.updates.renumber(5000)
    await platform.say(ada, "Ada", "after a quiet week")
    reader = Reader(platform.adapter().receive({"": str(FIRST_UPDATE)}))
    assert [event.text for event in (await reader.read()).events] == ["after a quiet week"]
    await platform.say(ada, "Ada", "and on")
    assert [event.text for event in (await reader.read()).events] == ["and on"]
    assert reader.cursors == {"": "5002"}


@played
async def test_a_second_receiver_ends_the_first(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    cursors = await cursors_of_now(platform)
    first = Reader(platform.adapter().receive(cursors))
    await first.read()
    asking = asyncio.create_task(first.read())
    await platform.server.updates.polled.wait()
    second = Reader(platform.adapter().receive(cursors))
    await second.read()
    with pytest.raises(TakenElsewhere):
        await asking
    await platform.say(ada, "Ada", "hello")
    assert [event.text for event in (await second.read()).events] == ["hello"]


@played
async def test_a_broken_poll_is_said_and_the_cursor_goes_on(platform: TelegramPlatform) -> None:
    ada = await platform.direct("Ada")
    adapter = platform.adapter()
    reader = Reader(adapter.receive(await cursors_of_now(platform)))
    await reader.read()
    asking = asyncio.create_task(reader.read())
    await platform.server.updates.polled.wait()
    await platform.kick()
    with pytest.raises(Unreachable):
        await asking
    await platform.say(ada, "Ada", "hello")
    again = await Reader(adapter.receive(reader.cursors)).read()
    assert [event.text for event in again.events] == ["hello"]


@pytest.mark.parametrize("is_json", [True, False])
@played
async def test_an_error_of_the_server_is_a_broken_connection(
    platform: TelegramPlatform, is_json: bool
) -> None:
    platform.server.answer_next("getUpdates", ApiError(502, "Bad Gateway", is_json=is_json))
    with pytest.raises(Unreachable):
        await Reader(platform.adapter().receive({"": "0"})).read()


@pytest.mark.parametrize("token", ["not a token", "4242:another", "99:" + TOKEN])
@played
async def test_a_wrong_token_is_refused_and_never_shown(platform: TelegramPlatform, token: str) -> None:
    adapter = TelegramAdapter(Secret(token), SystemClock(), api_url=platform.server.url)
    try:
        with pytest.raises(SignInRefused) as refused:
            await adapter.connect()
    finally:
        await adapter.close()
    assert token not in str(refused.value)


@played
async def test_an_address_that_is_none_shows_no_token(platform: TelegramPlatform) -> None:
    adapter = TelegramAdapter(Secret(TOKEN), SystemClock(), api_url="nowhere")
    try:
        with pytest.raises(NotTaken) as failed:
            await adapter.connect()
    finally:
        await adapter.close()
    shown = [str(failed.value), str(failed.value.__cause__), repr(failed.value)]
    assert not any(TOKEN in text for text in shown)


@played
async def test_the_account_is_named_by_its_id(platform: TelegramPlatform) -> None:
    identity = await platform.adapter().connect()
    assert (identity.id, identity.name) == ("4242", "@Holdfast_Bot")
    assert "https://t.me/Holdfast_Bot" in identity.invite


@pytest.mark.parametrize(
    ("update", "kind"),
    [
        ({"edited_message": {"text": "changed"}}, "edited_message"),
        ({"a_kind_of_next_year": {"text": "new"}}, "a_kind_of_next_year"),
        (
            {"message": {"new_chat_members": [{"id": 5, "is_bot": False, "first_name": "Bo"}]}},
            "new_chat_members",
        ),
        ({"message": {"migrate_to_chat_id": -100}}, "migrate_to_chat_id"),
    ],
)
@played
async def test_other_kinds_of_updates_are_left_out_with_a_line_in_the_log(
    platform: TelegramPlatform, update: dict[str, Any], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place = await platform.group(["Ada"])
    ((name, fields),) = update.items()
    message = {**platform.chat(place).add({"from": platform.person("Ada")}), **fields}
    number = platform.server.updates.put({name: message})
    batch = await Reader(platform.adapter().receive({"": "0"})).read()
    assert batch.events == ()
    assert batch.cursors == {"": str(number + 1)}
    (line,) = [record for record in caplog.records if record.message == "telegram.left_out"]
    assert kind in (line.__dict__["kind"], line.__dict__["content"])


@played
async def test_an_update_that_can_not_be_read_holds_up_no_other(
    platform: TelegramPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    ada = await platform.direct("Ada")
    platform.server.updates.put({"message": {"message_id": "a word", "secret": "what Ada said"}})
    await platform.say(ada, "Ada", "hello")
    batch = await Reader(platform.adapter().receive({"": "0"})).read()
    assert [event.text for event in batch.events] == ["hello"]
    (line,) = [record for record in caplog.records if record.message == "telegram.unreadable"]
    assert line.__dict__["update"] == FIRST_UPDATE
    assert "what Ada said" not in str(line.__dict__)
