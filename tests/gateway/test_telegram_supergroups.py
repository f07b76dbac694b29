"""A group of Telegram that becomes a supergroup has another id; its conversation goes on there."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.core.messages import text_of
from holdfast.gateway.contract import Place
from holdfast.models.contract import Model, ModelRequest
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_posts import NewPost
from holdfast.testing import ScriptedModel
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway
from tests.gateway.telegram_platform import QuickTelegram, TelegramPlatform
from tests.gateway.telegram_story import played

pytestmark = [
    pytest.mark.slow,  # the real library takes seconds to load
    pytest.mark.soak_cases("postgres"),  # the store's own suite tries both engines
    pytest.mark.parametrize("telegram", [QuickTelegram], indirect=True),
]


def counting(session_id: str) -> Model:
    """A model that says how many messages the conversation has, and the last line of the last one."""

    def answer(request: ModelRequest) -> str:
        said = [text_of(each) for each in request.messages if each["role"] == "user"]
        return f"{len(said)}: {said[-1].splitlines()[-1]}"

    return ScriptedModel([answer] * 100)


def waiting(gate: asyncio.Event) -> Callable[[str], Model]:
    """A model whose answer waits until the gate is open."""

    async def answer(request: ModelRequest) -> str:
        await gate.wait()
        return "late"

    return lambda _: ScriptedModel([answer] * 100)


async def a_group(telegram: TelegramPlatform, db: SessionDB) -> Place:
    db.chat_people.put(ACCOUNT, str(telegram.person("Ada")["id"]), "user", name="Ada")
    return await telegram.group(["Ada"])


async def until_said(telegram: TelegramPlatform, place: Place, *texts: str) -> None:
    chat = telegram.chat(place)

    def said() -> list[str]:
        return [each["text"] for each in chat.messages.values() if each["from"]["is_bot"] and "text" in each]

    try:
        await telegram.server.until(lambda: said() == list(texts))
    finally:
        assert said() == list(texts)


async def ask(telegram: TelegramPlatform, place: Place, word: str, *texts: str) -> None:
    """Say a word and wait until the bot has said these texts, the last one as an answer to it."""
    asked = await telegram.say(place, "Ada", word, mention=True)
    await until_said(telegram, place, *texts)
    assert (await telegram.messages(place))[-1].reply_to == asked


@pytest.mark.clause("G2", "G6")
@played
async def test_the_conversation_of_a_group_goes_on_in_the_supergroup(
    telegram: TelegramPlatform, db: SessionDB
) -> None:
    group = await a_group(telegram, db)
    async with a_gateway(db, telegram, counting):
        await ask(telegram, group, "one", "1: one")
        grown = await telegram.upgrade(group)
        # The messages are numbered anew: the supergroup has a second and a third one of its own.
        await ask(telegram, grown, "two", "2: two")
        await ask(telegram, grown, "three", "2: two", "3: three")
    async with a_gateway(db, telegram, counting):
        await ask(telegram, grown, "four", "2: two", "3: three", "4: four")


@pytest.mark.clause("G2")
@played
async def test_a_move_that_telegram_did_not_tell_of_is_found_out_by_sending(
    telegram: TelegramPlatform, db: SessionDB
) -> None:
    group = await a_group(telegram, db)
    async with a_gateway(db, telegram, counting):
        await ask(telegram, group, "one", "1: one")
        grown = await telegram.upgrade(group, told=False)
        (room,) = db.chat_events.rooms(ACCOUNT)
        db.chat_posts.put(NewPost("notice", room.id, {"text": "a notice"}))
        await until_said(telegram, grown, "a notice")
        await ask(telegram, grown, "two", "a notice", "2: two")
    async with a_gateway(db, telegram, counting):
        await ask(telegram, grown, "three", "a notice", "2: two", "3: three")


@pytest.mark.clause("G2")
@played
async def test_an_answer_that_began_in_the_group_is_given_in_the_supergroup(
    telegram: TelegramPlatform, db: SessionDB
) -> None:
    group, gate = await a_group(telegram, db), asyncio.Event()
    async with a_gateway(db, telegram, waiting(gate)):
        await telegram.say(group, "Ada", "one", mention=True)
        await until_said(telegram, group, "…")
        grown = await telegram.upgrade(group)
        gate.set()
        await until_said(telegram, grown, "late")
        (answer,) = [each for each in await telegram.messages(grown) if each.by_bot]
        assert not answer.reply_to
