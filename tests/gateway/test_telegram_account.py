"""The gateway on Telegram: each message is answered once, as a reply, whatever breaks on the way."""

import time

import pytest

from holdfast.gateway.contract import Place
from holdfast.sessions import SessionDB
from holdfast.testing.chat_platform import Fault
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_story import played

pytestmark = pytest.mark.slow  # the real library takes seconds to load


async def chat_with(telegram: TelegramPlatform, db: SessionDB, person: str) -> Place:
    """The direct chat of a person who may talk with the bot."""
    db.chat_people.put(ACCOUNT, str(telegram.person(person)["id"]), "user", name=person)
    return await telegram.direct(person)


async def until_said(telegram: TelegramPlatform, place: Place, *texts: str) -> None:
    chat = telegram.chat(place)

    def said() -> list[str]:
        return [each.get("text", "") for each in chat.messages.values() if each["from"]["is_bot"]]

    try:
        await telegram.server.until(lambda: said() == list(texts))
    finally:
        assert said() == list(texts)


@played
async def test_a_message_is_answered_as_a_reply(telegram: TelegramPlatform, db: SessionDB) -> None:
    ada = await chat_with(telegram, db, "Ada")
    async with a_gateway(db, telegram):
        asked = await telegram.say(ada, "Ada", "hello")
        await until_said(telegram, ada, "You said: hello")
        _, answer = await telegram.messages(ada)
        assert answer.reply_to == asked


@pytest.mark.parametrize("fault", ["slow down", "drop before", "drop after"])
@played
async def test_a_fault_doubles_a_placeholder_at_worst(
    telegram: TelegramPlatform, db: SessionDB, fault: Fault
) -> None:
    ada = await chat_with(telegram, db, "Ada")
    async with a_gateway(db, telegram):
        await telegram.fail(fault)
        await telegram.say(ada, "Ada", "hello")
        placeholder = ["…"] if fault == "drop after" else []
        await until_said(telegram, ada, *placeholder, "You said: hello")


@played
async def test_what_came_during_an_absence_is_answered_in_order_and_once(
    telegram: TelegramPlatform, db: SessionDB
) -> None:
    ada = await chat_with(telegram, db, "Ada")
    async with a_gateway(db, telegram):
        await telegram.server.updates.polled.wait()
    for ago, text in ((20, "one"), (10, "two")):  # messages of one second would be one burst
        telegram.post(ada, "Ada", {"text": text, "date": int(time.time()) - ago})
    async with a_gateway(db, telegram):
        await until_said(telegram, ada, "You said: one", "You said: two")
        await telegram.deliver_again()
        await telegram.kick()
        await telegram.say(ada, "Ada", "three")
        await until_said(telegram, ada, "You said: one", "You said: two", "You said: three")
