"""Previews: a placeholder comes first where the platform needs one, and previews give way to answers."""

import asyncio

import pytest

from holdfast.gateway.post_text import PLACEHOLDER
from holdfast.models.contract import Model, ModelRequest
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform
from tests.gateway.gateway_fixtures import a_gateway, let_in, traits, until_said, until_status

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines


def test_a_placeholder_stands_before_the_first_word_and_becomes_the_answer(db: SessionDB) -> None:
    async def scenario() -> None:
        platform, gate = MemoryPlatform(traits(repeat="placeholder")), asyncio.Event()
        let_in(db, "ada")
        place = await platform.direct("ada")

        async def wait(_: ModelRequest) -> str:
            await gate.wait()
            return "Here I am."

        def script(_: str) -> Model:
            return ScriptedModel([wait])

        async with a_gateway(db, platform, script) as (_, host):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, PLACEHOLDER)
            (before,) = [each.id for each in platform.seen(place) if each.by_bot]
            gate.set()
            await until_said(platform, place, "Here I am.")
            await until_status(host, lambda now: now.posts == {"sent": 1})
            assert [each.id for each in platform.seen(place) if each.by_bot] == [before]

    run(scenario())


def test_every_chat_gets_one_message_when_there_are_more_answers_than_calls(db: SessionDB) -> None:
    async def scenario() -> None:
        options = MemoryOptions(enforces_limits=True)
        platform = MemoryPlatform(traits(account_per_second=10.0), options=options)
        people = [f"person{number}" for number in range(12)]
        let_in(db, *people)
        places = [await platform.direct(person) for person in people]
        async with a_gateway(db, platform) as (_, host):
            for place, person in zip(places, people, strict=True):
                await platform.say(place, person, "hello")
            await until_status(host, lambda now: now.posts == {"sent": len(people)})
        said = [[each.text for each in platform.seen(place) if each.by_bot] for place in places]
        assert said == [["You said: hello"]] * len(people)
        assert all(each.taken for each in platform.calls()), "the platform never asked to slow down"

    run(scenario())
