"""A model refuses what a message holds: that is set aside with its reason, and the conversation goes on."""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.agent import SessionAgent
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import ContentRejected, ContextTooLong, ModelFailure
from holdfast.core.events import Event, Notice
from holdfast.models.contract import ModelRequest, ModelTraits
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.script_file import HttpRefusal
from holdfast.testing.scripted_server import ScriptedServer
from tests.agent.agent_fixtures import a_tool, require_valid
from tests.core.picture_files import picture

Wait = Callable[[Awaitable[Any]], Any]
pytestmark = pytest.mark.clause("I8")

LOOK: Any = {"role": "user", "content": [{"type": "text", "text": "look"}, picture()]}


def seen(request: ModelRequest) -> str:
    return str([each.get("content") for each in request.messages])


def strict(word: str, failure: type[ModelFailure] = ContentRejected) -> list[Any]:
    """A script that refuses whatever holds a word."""

    def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - what a script plays
        return failure("strict", f"it holds {word}") if word in seen(request) else "fine"

    return [answer] * 20


async def events(agent: SessionAgent, message: str | Message) -> list[Event]:
    async with aclosing(agent.stream(message)) as happening:
        return [event async for event in happening]


@pytest.mark.parametrize("failure", [ContentRejected, ContextTooLong])
def test_a_refused_picture_is_left_out_and_its_message_is_answered(
    db: SessionDB, wait: Wait, failure: type[ModelFailure]
) -> None:
    model = ScriptedModel(strict("base64", failure))

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        happened = await events(agent, LOOK)
        notices = [each.text for each in happened if isinstance(each, Notice)]
        assert len(notices) == 1
        assert "it holds base64" in notices[0]
        assert "look" in seen(model.requests[-1])
        assert "a picture of this message was left out: " in seen(model.requests[-1])
        asked = model.played
        assert (await agent.run("and now?")).final_response == "fine"
        assert model.played == asked + 1
        again = SessionAgent(model, db, "s")
        assert (await again.run("after a restart")).final_response == "fine"
        assert model.played == asked + 2
        require_valid(model.requests[-1].messages)
        assert list(again.messages) == Transcript(db.get_messages("s")).messages
        stored = db.get_messages("s")
        assert stored[0] == LOOK
        assert "it holds base64" in str(stored[1]["content"])
        await agent.close()
        await again.close()

    wait(scenario())


def test_a_refused_text_fails_its_own_turn_and_no_other(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel(strict("cursed"))

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("hello")
        with pytest.raises(ContentRejected, match="it holds cursed"):
            await agent.run("a cursed word")
        assert (await agent.run("what next?")).final_response == "fine"
        assert "hello" in seen(model.requests[-1])
        assert "what next?" in seen(model.requests[-1])
        asked = model.played
        assert (await SessionAgent(model, db, "s").run("and then?")).final_response == "fine"
        assert model.played == asked + 1
        assert "a cursed word" in str(db.get_messages("s"))

    wait(scenario())


def test_a_refused_result_of_a_tool_does_not_block_the_next_turn(db: SessionDB, wait: Wait) -> None:
    async def run(_: object, __: object) -> str:
        return "a cursed page"

    model = ScriptedModel([Call("fetch"), *strict("cursed")])

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s", tools=[a_tool("fetch", run)])
        with pytest.raises(ContentRejected):
            await agent.run("fetch it")
        assert (await agent.run("never mind")).final_response == "fine"
        require_valid(model.requests[-1].messages)
        assert "fetch it" in seen(model.requests[-1])

    wait(scenario())


def test_what_is_wrong_with_the_whole_request_sets_nothing_aside(db: SessionDB, wait: Wait) -> None:
    wrong = ContentRejected("m", "tools[0] is invalid")
    model = ScriptedModel([wrong] * 12)

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        for words in ("one", "two", LOOK):
            with pytest.raises(ContentRejected, match="tools"):
                await agent.run(words)
        model_again = ScriptedModel(["fine"])
        mended = SessionAgent(model_again, db, "s")
        assert (await mended.run("three")).final_response == "fine"
        assert all(word in seen(model_again.requests[0]) for word in ("one", "two", "look", "base64"))
        assert model.played <= 12

    wait(scenario())


def test_a_broken_picture_in_an_old_record_is_set_aside_over_http(db: SessionDB, wait: Wait) -> None:
    def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - what a script plays
        refusal = HttpRefusal(400, {"message": "could not process image", "type": "invalid_request_error"})
        return refusal if "AAAA" in seen(request) else "fine"

    async def scenario() -> None:
        db.create_session("s", source="import")
        old: Any = [
            {"role": "user", "content": [picture("data:image/png;base64,AAAA")]},
            {"role": "assistant", "content": "[cut off here: refused]", "holdfast": {"cut_off": "refused"}},
        ]
        db.sessions.append_messages("s", old)
        async with ScriptedServer([answer] * 9) as server:
            model = OpenAICompatible(Server(server.base_url), ModelTraits("scripted", 100_000))
            agent = SessionAgent(model, db, "s")
            assert (await agent.run("and now?")).final_response == "fine"
            assert (await agent.run("again")).final_response == "fine"
            assert len(server.asked) == 3
            await agent.close()
            await model.close()
        assert db.get_messages("s")[:2] == old

    wait(scenario())


def test_a_model_that_reads_text_only_is_told_of_a_picture_and_so_is_the_person(
    db: SessionDB, wait: Wait
) -> None:
    traits = ModelTraits("blind", 100_000, sees_pictures=False)

    async def scenario() -> None:
        agent = SessionAgent(ScriptedModel(["fine"], traits=traits), db, "s")
        happened = await events(agent, LOOK)
        assert ["blind reads text only" in each.text for each in happened if isinstance(each, Notice)] == [
            True
        ]
        assert not [each for each in await events(agent, "words") if isinstance(each, Notice)]

    wait(scenario())
