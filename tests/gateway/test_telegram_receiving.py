"""Telegram: what is sent to the bot comes once it can be stored, again if it was not, and in order."""

import asyncio
import logging
from typing import Any

import pytest

from holdfast.gateway.contract import (
    ChatPlatformError,
    NotTaken,
    SignInRefused,
    SlowDown,
    TakenElsewhere,
    Unreachable,
)
from tests.gateway.telegram_chats import ApiError
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_server import FIRST_UPDATE, TOKEN
from tests.gateway.telegram_story import Reader, cursors_of_now, played

pytestmark = pytest.mark.slow  # the real library takes seconds to load


@played
async def test_the_first_start_receives_nothing_of_the_past(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    await telegram.say(ada, "Ada", "long ago")
    await telegram.say(ada, "Ada", "a while ago")
    reader = Reader(telegram.adapter().receive({}))
    first = await reader.read()
    assert first.events == ()
    assert first.caught_up
    await telegram.say(ada, "Ada", "now")
    assert [event.text for event in (await reader.read()).events] == ["now"]
    await reader.close()


@played
async def test_the_first_start_with_an_empty_queue_receives_what_comes_next(
    telegram: TelegramPlatform,
) -> None:
    ada = await telegram.direct("Ada")
    cursors = await cursors_of_now(telegram)
    await telegram.say(ada, "Ada", "hello")
    batch = await Reader(telegram.adapter().receive(cursors)).read()
    assert [event.text for event in batch.events] == ["hello"]


@played
async def test_a_batch_that_was_not_stored_comes_again(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    cursors = await cursors_of_now(telegram)
    await telegram.say(ada, "Ada", "hello")
    killed = await Reader(telegram.adapter().receive(cursors)).read()
    restarted = await Reader(telegram.adapter().receive(cursors)).read()
    assert restarted.events == killed.events
    assert len(restarted.events) == 1


@played
async def test_a_batch_is_acknowledged_by_asking_for_the_next_and_not_before(
    telegram: TelegramPlatform,
) -> None:
    ada = await telegram.direct("Ada")
    reader = Reader(telegram.adapter().receive(await cursors_of_now(telegram)))
    await reader.read()
    await telegram.say(ada, "Ada", "one")
    batch = await reader.read()
    await batch.acknowledge()
    assert telegram.server.updates.unconfirmed == [FIRST_UPDATE]
    asking = asyncio.create_task(reader.read())
    await telegram.server.updates.polled.wait()
    assert telegram.server.updates.unconfirmed == []
    await telegram.say(ada, "Ada", "two")
    assert [event.text for event in (await asking).events] == ["two"]


@played
async def test_a_stored_batch_that_was_not_acknowledged_does_not_come_again(
    telegram: TelegramPlatform,
) -> None:
    ada = await telegram.direct("Ada")
    killed = Reader(telegram.adapter().receive(await cursors_of_now(telegram)))
    await telegram.say(ada, "Ada", "stored")
    await killed.read()
    await telegram.say(ada, "Ada", "sent during the absence")
    batch = await Reader(telegram.adapter().receive(killed.cursors)).read()
    assert [event.text for event in batch.events] == ["sent during the absence"]


@pytest.mark.parametrize(("count", "sizes"), [(0, [0]), (3, [3]), (100, [100, 0]), (250, [100, 100, 50])])
@played
async def test_catching_up_brings_all_in_order_and_says_when_it_is_done(
    telegram: TelegramPlatform, count: int, sizes: list[int]
) -> None:
    ada = await telegram.direct("Ada")
    cursors = await cursors_of_now(telegram)
    for number in range(count):
        await telegram.say(ada, "Ada", str(number))
    reader = Reader(telegram.adapter().receive(cursors))
    batches = [await reader.read() for _ in sizes]
    assert [len(batch.events) for batch in batches] == sizes
    assert [batch.caught_up for batch in batches] == [False] * (len(sizes) - 1) + [True]
    assert [event.text for batch in batches for event in batch.events] == [str(each) for each in range(count)]


@played
async def test_updates_out_of_order_are_sorted(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    cursors = await cursors_of_now(telegram)
    for text in ("one", "two", "three"):
        await telegram.say(ada, "Ada", text)
    telegram.server.updates.reverse_next()
    batch = await Reader(telegram.adapter().receive(cursors)).read()
    assert [event.text for event in batch.events] == ["one", "two", "three"]
    assert batch.cursors == {"": str(FIRST_UPDATE + 3)}


@played
async def test_what_is_delivered_again_has_the_same_ids(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    reader = Reader(telegram.adapter().receive(await cursors_of_now(telegram)))
    await reader.read()
    await telegram.say(ada, "Ada", "one")
    once = await reader.read()
    asking = asyncio.create_task(reader.read())
    await telegram.server.updates.polled.wait()
    await telegram.deliver_again()
    assert (await asking).events == once.events
    await telegram.say(ada, "Ada", "two")
    assert [event.text for event in (await reader.read()).events] == ["two"]


@played
async def test_a_numbering_that_began_anew_is_followed(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    telegram.server.updates.renumber(5000)
    await telegram.say(ada, "Ada", "after a quiet week")
    reader = Reader(telegram.adapter().receive({"": str(FIRST_UPDATE)}))
    assert [event.text for event in (await reader.read()).events] == ["after a quiet week"]
    await telegram.say(ada, "Ada", "and on")
    assert [event.text for event in (await reader.read()).events] == ["and on"]
    assert reader.cursors == {"": "5002"}


@played
async def test_a_second_receiver_ends_the_first(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    cursors = await cursors_of_now(telegram)
    first = Reader(telegram.adapter().receive(cursors))
    await first.read()
    asking = asyncio.create_task(first.read())
    await telegram.server.updates.polled.wait()
    second = Reader(telegram.adapter().receive(cursors))
    await second.read()
    with pytest.raises(TakenElsewhere):
        await asking
    await telegram.say(ada, "Ada", "hello")
    assert [event.text for event in (await second.read()).events] == ["hello"]


@played
async def test_a_broken_poll_is_said_and_the_cursor_goes_on(telegram: TelegramPlatform) -> None:
    ada = await telegram.direct("Ada")
    adapter = telegram.adapter()
    reader = Reader(adapter.receive(await cursors_of_now(telegram)))
    await reader.read()
    asking = asyncio.create_task(reader.read())
    await telegram.server.updates.polled.wait()
    await telegram.kick()
    with pytest.raises(Unreachable):
        await asking
    await telegram.say(ada, "Ada", "hello")
    again = await Reader(adapter.receive(reader.cursors)).read()
    assert [event.text for event in again.events] == ["hello"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (ApiError(502, "Bad Gateway"), Unreachable),
        (ApiError(502, "Bad Gateway", is_json=False), Unreachable),
        (ApiError(409, "Conflict: can't use getUpdates method while webhook is active"), TakenElsewhere),
        (ApiError(401, "Unauthorized"), SignInRefused),
        (ApiError(429, "Too Many Requests: retry after 7", {"retry_after": 7}), SlowDown),
    ],
)
@played
async def test_a_refused_poll_says_why(
    telegram: TelegramPlatform, answer: ApiError, error: type[ChatPlatformError]
) -> None:
    telegram.server.answer_next("getUpdates", answer)
    with pytest.raises(error):
        await Reader(telegram.adapter().receive({"": "0"})).read()


@pytest.mark.parametrize("token", ["not a token", "4242:another", "99:" + TOKEN])
@played
async def test_a_wrong_token_is_refused_and_never_shown(telegram: TelegramPlatform, token: str) -> None:
    adapter = telegram.adapter(token)
    try:
        with pytest.raises(SignInRefused) as refused:
            await adapter.connect()
    finally:
        await adapter.close()
    assert token not in str(refused.value)


@played
async def test_an_address_that_is_none_shows_no_token(telegram: TelegramPlatform) -> None:
    adapter = telegram.adapter(api_url="nowhere")
    try:
        with pytest.raises(NotTaken) as failed:
            await adapter.connect()
    finally:
        await adapter.close()
    shown = [str(failed.value), str(failed.value.__cause__), repr(failed.value)]
    assert not any(TOKEN in text for text in shown)


@played
async def test_the_account_is_named_by_its_id(telegram: TelegramPlatform) -> None:
    identity = await telegram.adapter().connect()
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
    ],
)
@played
async def test_other_kinds_of_updates_are_left_out_with_a_line_in_the_log(
    telegram: TelegramPlatform, update: dict[str, Any], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    place = await telegram.group(["Ada"])
    ((name, fields),) = update.items()
    message = {**telegram.chat(place).add({"from": telegram.person("Ada")}), **fields}
    number = telegram.server.updates.put({name: message})
    batch = await Reader(telegram.adapter().receive({"": "0"})).read()
    assert batch.events == ()
    assert batch.cursors == {"": str(number + 1)}
    (line,) = [record for record in caplog.records if record.message == "telegram.left_out"]
    assert kind in (line.__dict__["kind"], line.__dict__["content"])


@played
async def test_an_update_that_can_not_be_read_holds_up_no_other(
    telegram: TelegramPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    ada = await telegram.direct("Ada")
    telegram.server.updates.put({"message": {"message_id": "a word", "secret": "what Ada said"}})
    await telegram.say(ada, "Ada", "hello")
    batch = await Reader(telegram.adapter().receive({"": "0"})).read()
    assert [event.text for event in batch.events] == ["hello"]
    (line,) = [record for record in caplog.records if record.message == "telegram.unreadable"]
    assert line.__dict__["update"] == FIRST_UPDATE
    assert "what Ada said" not in str(line.__dict__)
