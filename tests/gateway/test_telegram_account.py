"""The gateway on Telegram: each message is answered once, as a reply, whatever breaks on the way."""

import re
import time
from collections.abc import Sequence

import pytest

from holdfast.gateway.contract import Place
from holdfast.models.contract import Model, ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.chat_platform import Fault
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, until_status
from tests.gateway.telegram_platform import QuickTelegram, TelegramPlatform
from tests.gateway.telegram_story import played

pytestmark = [
    pytest.mark.slow,  # the real library takes seconds to load
    pytest.mark.soak_cases("postgres"),  # the store's own suite tries both engines
]

HOUR = 3600
TOO_OLD, COMMANDS = (0, 1, 2), (20, 41)


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


class Absence:
    """Fifty messages in five chats while the gateway was away, and what is to be said to each."""

    def __init__(self, telegram: TelegramPlatform, places: Sequence[Place]) -> None:
        self.answers: dict[str, list[str]] = {place.chat: [] for place in places}
        self.notices: dict[tuple[str, str], str] = {}
        now = int(time.time())
        for number in range(50):
            place = places[number % 5]
            text, date, notice = f"say #{number}", now - HOUR + number * 60, ""
            if number in TOO_OLD:
                date, notice = now - 25 * HOUR + number, "older than 24 hours"
            elif number in COMMANDS:
                text, notice = "/new", "did not run this command"
            mention = [{"type": "mention", "offset": 0, "length": 13}] if number % 5 else []
            said = f"@holdfast_bot {text}" if mention else text
            own = telegram.post(place, "Ada", {"text": said, "date": date, "entities": mention})
            if notice:
                self.notices[place.chat, own] = notice
            else:
                self.answers[place.chat].append(f"the answer to #{number}")


@pytest.mark.parametrize("telegram", [QuickTelegram], indirect=True)
@played
async def test_after_an_hour_away_all_is_caught_up_in_order_but_commands_and_what_is_too_old(
    telegram: TelegramPlatform, db: SessionDB
) -> None:
    asked = []

    def answer(request: ModelRequest) -> str:
        number = re.findall(r"say #(\d+)", str(request.messages[-1]["content"]))[-1]
        asked.append(number)
        return f"the answer to #{number}"

    def script(_: str) -> Model:
        return ScriptedModel([answer] * 50)

    places = [await chat_with(telegram, db, "Ada"), *[await telegram.group(["Ada", "Bob"]) for _ in range(4)]]
    async with a_gateway(db, telegram, script):
        await telegram.server.updates.polled.wait()
    absence = Absence(telegram, places)
    async with a_gateway(db, telegram, script) as (_, host):
        await until_status(host, lambda now: now.posts == {"sent": 50} and "new" not in now.events)
    for place in places:
        shown = [each for each in await telegram.messages(place) if each.by_bot]
        about = {each.id: absence.notices.pop((place.chat, each.reply_to), "") for each in shown}
        assert all(about[each.id] in each.text for each in shown)
        assert [each.text for each in shown if not about[each.id]] == absence.answers[place.chat]
    assert not absence.notices
    assert len(asked) == 45
