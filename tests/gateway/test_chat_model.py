"""`/model` in a chat: the model of that chat's conversation, for those who may choose it."""

import asyncio
from collections.abc import Callable

import pytest

from holdfast.core.settings import GatewaySettings
from holdfast.gateway.contract import Place
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing.chat_platform import ChatPlatform
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.chat_sites import NAMES, a_site
from tests.gateway.gateway_fixtures import ACCOUNT, SECONDS, a_gateway, let_in, traits
from tests.gateway.moments import Moments
from tests.polling import pauses

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
            assert "not among those that can be chosen" in await said_to(platform, ada, "ada", "/model huge")
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


def test_users_choose_among_the_models_of_the_settings_and_the_owner_among_all(db: SessionDB) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        db.chat_people.put(ACCOUNT, "person-bob", "owner", name="bob")
        ada, bob = await platform.direct("ada"), await platform.direct("bob")
        async with a_gateway(db, platform, settings=GatewaySettings(debounce_s=0, user_models=("small",))):
            listed = await said_to(platform, ada, "ada", "/model list")
            assert "`small`" in listed
            assert "`large`" not in listed
            assert "Users may choose: small" in await said_to(platform, ada, "ada", "/model large")
            assert "small answers" in await said_to(platform, ada, "ada", "/model small")
            assert model_of(db, ada) == "small"
            assert "as everywhere" not in await said_to(platform, ada, "ada", "/model usual")
            assert "`large`" in await said_to(platform, bob, "bob", "/model list")
            assert "large answers" in await said_to(platform, bob, "bob", "/model large")
            assert model_of(db, bob) == "large"

    run(scenario())


async def until_last(platform: ChatPlatform, place: Place, holds: Callable[[str], bool]) -> None:
    """Wait until the last message of the bot is as wanted."""
    said: list[str] = []
    try:
        async with asyncio.timeout(SECONDS):
            for pause in pauses():
                said = [each.text for each in await platform.messages(place) if each.by_bot]
                if said and holds(said[-1]):
                    return
                await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
    except TimeoutError:
        raise AssertionError(f"the bot said {said}") from None


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_listed_and_chosen_on_every_platform(
    name: str, db: SessionDB, request: pytest.FixtureRequest
) -> None:
    synapse = request.getfixturevalue("synapse") if name == "matrix" else None

    async def scenario() -> None:
        async with a_site(name, Moments(no_kill), synapse) as site:
            platform = site.platform
            ada, cyd = await platform.direct("ada"), await platform.direct("cyd")
            db.chat_people.put(ACCOUNT, site.person_id("ada"), "user")
            db.chat_people.put(ACCOUNT, site.person_id("cyd"), "guest")
            async with a_gateway(db, platform):
                await platform.say(ada, "ada", "/model list")
                await until_last(platform, ada, lambda said: "large" in said and "small" in said)
                await platform.say(ada, "ada", "/model small")
                await until_last(platform, ada, lambda said: said.startswith("small answers"))
                await platform.say(ada, "ada", "hello")
                await until_last(platform, ada, lambda said: said == "You said: hello")
                await platform.say(cyd, "cyd", "/model small")
                await until_last(platform, cyd, lambda said: said == "/model is not for guests.")
            assert model_of(db, ada) == "small"

    run(scenario())


async def no_kill() -> None:
    """Nothing is killed here."""
