"""`/model` in a chat: the model of that chat's conversation, for those who may choose it."""

import pytest

from holdfast.gateway.contract import Place
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines


async def said_to(platform: MemoryPlatform, place: Place, person: str, text: str) -> str:
    """What the bot says to a command."""
    before = len(platform.seen(place))
    await platform.say(place, person, text)
    await platform.until(lambda: len(platform.seen(place)) == before + 2)
    return platform.seen(place)[-1].text


async def greet(platform: MemoryPlatform, place: Place, person: str) -> None:
    await platform.say(place, person, "hello")
    await platform.until(lambda: platform.seen(place)[-1].text == "You said: hello")


def model_of(db: SessionDB, place: Place) -> str:
    [room] = [each for each in db.chat_events.rooms(ACCOUNT) if each.chat == place.chat]
    assert room.session_id is not None
    return db.choices.get(room.session_id).model


def test_a_chat_has_a_model_of_its_own(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada", "bob")
        ada, bob = await platform.direct("ada"), await platform.direct("bob")
        async with a_gateway(db, platform):
            assert "`large`\n- `small`" in await said_to(platform, ada, "ada", "/model list")
            # Before a word was said: the conversation that follows has it.
            assert "small answers" in await said_to(platform, ada, "ada", "/model small")
            await greet(platform, ada, "ada")
            assert "small answers" in await said_to(platform, ada, "ada", "/model")
            assert "Model: small" in await said_to(platform, ada, "ada", "/status")
            assert model_of(db, ada) == "small"
            assert "there is no huge" in await said_to(platform, ada, "ada", "/model huge")
            assert model_of(db, ada) == "small"
            await greet(platform, bob, "bob")
            assert "as everywhere" in await said_to(platform, bob, "bob", "/model")
            await said_to(platform, ada, "ada", "/model usual")
            assert model_of(db, ada) == ""

    run(scenario())


def test_a_guest_can_not_choose_the_model(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        db.chat_people.put(ACCOUNT, "person-cyd", "guest", name="cyd")
        cyd = await platform.direct("cyd")
        async with a_gateway(db, platform):
            await greet(platform, cyd, "cyd")
            for words in ("/model", "/model list", "/model small", "!model small"):
                assert await said_to(platform, cyd, "cyd", words) == "/model is not for guests."
            assert model_of(db, cyd) == ""

    run(scenario())
