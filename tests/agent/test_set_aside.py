"""What exactly is set aside when a model refuses a request: by its place, and never the running words."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent import SessionAgent
from holdfast.agent.refused_content import LONG_TEXT, digest
from holdfast.agent.transcript import Transcript
from holdfast.core.contract import Message
from holdfast.core.errors import ContentRejected, ModelUnreachable
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import require_valid
from tests.agent.compaction_fixtures import SUMMARY, an_agent, conversation
from tests.core.picture_files import WHOLE, data_url, picture

Wait = Callable[[Awaitable[Any]], Any]
pytestmark = pytest.mark.clause("I8")

REFUSED = ContentRejected("m", "it is refused")
LOOK: Any = {"role": "user", "content": [{"type": "text", "text": "look"}, picture()]}
LEFT_OUT = "was left out"
TEXTS = st.text(max_size=5) | st.sampled_from(["a" * (LONG_TEXT + 1), "b" * (LONG_TEXT + 1)])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def contents(messages: Any) -> list[Any]:  # noqa: ANN401 - of a request or a transcript
    return [each.get("content") for each in messages]


def unless(is_refused: Callable[[str], bool]) -> Callable[[ModelRequest], Any]:
    return lambda request: REFUSED if is_refused(str(contents(request.messages))) else "fine"


def test_the_words_of_the_running_turn_stay_when_they_were_said_before(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel(["hi", REFUSED, *[unless(lambda said: "cut off here" in said)] * 9])

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("hello")
        with pytest.raises(ContentRejected):
            await agent.run("make a plan")
        assert (await agent.run("make a plan")).final_response == "fine"
        asked = contents(model.requests[-1].messages)
        assert asked[:2] == ["hello", "hi"]
        assert LEFT_OUT in asked[2]
        assert asked[-1] == "make a plan"
        assert list(agent.messages) == Transcript(db.get_messages("s")).messages
        # Said once more, in another process: what was set aside is, and nothing else.
        again = SessionAgent(model, db, "s")
        assert (await again.run("make a plan")).final_response == "fine"
        asked = contents(model.requests[-1].messages)
        assert [place for place, each in enumerate(asked) if LEFT_OUT in each] == [2, 3]
        assert asked[4:] == ["make a plan", "fine", "make a plan"]

    wait(scenario())


def test_an_answered_message_stays_when_the_same_words_failed_later(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel(["did it", REFUSED, *[unless(lambda said: "cut off here" in said)] * 9])

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("yes")
        with pytest.raises(ContentRejected):
            await agent.run("yes")
        await agent.run("go on")
        for messages in (agent.messages, Transcript(db.get_messages("s")).messages):
            said = contents(messages)
            assert said[:2] == ["yes", "did it"]
            assert LEFT_OUT in said[2]
            assert said[4:] == ["go on", "fine"]

    wait(scenario())


def test_a_picture_that_was_answered_stays_when_the_same_one_is_refused_later(
    db: SessionDB, wait: Wait
) -> None:
    model = ScriptedModel([unless(lambda said: said.count("base64") > 1)] * 9)

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run(LOOK)
        assert (await agent.run(LOOK)).final_response == "fine"
        for messages in (agent.messages, Transcript(db.get_messages("s")).messages):
            said = contents(messages)
            assert said[0] == LOOK["content"]
            assert LEFT_OUT in str(said[2])

    wait(scenario())


@pytest.mark.parametrize("ending", ["unreachable", "interrupted"])
def test_a_turn_that_fails_while_something_is_left_out_changes_nothing(
    db: SessionDB, wait: Wait, ending: str
) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def hangs(_: ModelRequest) -> None:
            asked.set()
            await asyncio.Event().wait()

        last = ModelUnreachable("m", "down", None) if ending == "unreachable" else hangs
        model = ScriptedModel(["hi", REFUSED, REFUSED, last, "fine"])
        agent = SessionAgent(model, db, "s")
        await agent.run("hello")
        with pytest.raises(ContentRejected):
            await agent.run("the number is 42")
        if ending == "unreachable":
            with pytest.raises(ModelUnreachable):
                await agent.run("again")
        else:
            turn = asyncio.create_task(agent.run("again"))
            await asked.wait()
            agent.interrupt()
            assert (await turn).state == "interrupted"
        assert LEFT_OUT in str(contents(model.requests[-1].messages))
        assert LEFT_OUT not in str(contents(agent.messages))
        assert (await agent.run("third")).final_response == "fine"
        assert "the number is 42" in contents(model.requests[-1].messages)
        assert list(agent.messages) == Transcript(db.get_messages("s")).messages

    wait(scenario())


class Cursed(ScriptedModel):
    """Refuses every request that holds a word, also one for a summary."""

    async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401 - an async generator
        if "cursed" in str(contents(request.messages)):
            raise REFUSED
        async for piece in super().stream(request):
            yield piece


def between_turns(agent: SessionAgent) -> Awaitable[Any]:
    return agent.compact(lambda _: None)


def with_the_record(agent: SessionAgent, db: SessionDB) -> Awaitable[Any]:
    return agent.compress_context(db.get_messages("s"), "")


def with_what_models_see(agent: SessionAgent, _: SessionDB) -> Awaitable[Any]:
    return agent.compress_context(list(agent.messages), "")


@pytest.mark.parametrize(
    "compact", [lambda agent, _: between_turns(agent), with_the_record, with_what_models_see]
)
def test_a_compaction_summarises_what_models_see(
    db: SessionDB, wait: Wait, compact: Callable[[SessionAgent, SessionDB], Awaitable[Any]]
) -> None:
    model = Cursed(["fine, " + "blah " * 300] * 9)

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("hello " * 50)
        with pytest.raises(ContentRejected):
            await agent.run("a cursed word")
        for words in ("go on", "and more", "and then"):
            await agent.run(words * 50)
        await compact(agent, db)
        assert agent.session_id != "s"
        child = db.get_messages(agent.session_id)
        assert "fine, blah" in str(child[0]["content"])  # the model wrote it
        assert "cursed" not in str([each["content"] for each in child])
        assert "a cursed word" in str(db.get_messages("s"))
        asked = model.played
        await agent.run("after it")
        assert model.played == asked + 1
        require_valid(model.requests[-1].messages)

    wait(scenario())


@pytest.mark.parametrize("answered", [True, False])
def test_a_summary_that_is_refused_does_not_block_its_conversation(
    db: SessionDB, wait: Wait, answered: bool
) -> None:
    model = Cursed(["fine"] * 9)
    summary = "Summary of the conversation so far. Its full text is kept and can be searched."

    async def scenario() -> None:
        db.create_session("s", source="test")
        opening: list[Any] = [
            {
                "role": "user",
                "content": f"{summary}\n\n<summary>\nuser: a cursed word\n</summary>",
                "holdfast": {"summary": True},
            }
        ]
        if answered:
            opening += [{"role": "user", "content": "go on"}, {"role": "assistant", "content": "done"}]
        db.sessions.append_messages("s", opening)
        agent = SessionAgent(model, db, "s")
        assert (await agent.run("what next?")).final_response == "fine"
        asked = model.requests[-1].messages
        require_valid(asked)
        assert LEFT_OUT in str(asked[0]["content"])
        assert "what next?" in str(asked[-1]["content"])
        assert not answered or "go on" in str(asked[0]["content"])
        again = SessionAgent(model, db, "s")
        played = model.played
        assert (await again.run("and then?")).final_response == "fine"
        assert model.played == played + 1
        assert list(again.messages) == Transcript(db.get_messages("s")).messages
        assert db.get_messages("s")[0] == opening[0]

    wait(scenario())


def test_a_conversation_compacted_right_after_a_refusal_goes_on(db: SessionDB, wait: Wait) -> None:
    model = Cursed(["fine, " + "blah " * 300] * 9)

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("hello " * 50)
        with pytest.raises(ContentRejected):
            await agent.run("a cursed word " * 200)
        await between_turns(agent)
        for words in ("what next?", "and then?"):
            assert (await agent.run(words)).final_response.startswith("fine")
            require_valid(model.requests[-1].messages)
        said = contents(agent.messages)
        assert "<summary>\nfine, blah" in said[0]
        assert LEFT_OUT in said[0]
        assert said[2] == "what next?"

    wait(scenario())


def test_two_messages_of_a_failed_turn_are_set_aside_for_a_summary_too(db: SessionDB, wait: Wait) -> None:
    """Models see them joined; the record, and what a summary is written from, has them one by one."""
    model = Cursed(["fine, " + "blah " * 300] * 9)

    async def scenario() -> None:
        db.create_session("s", source="test")
        said: list[Message] = [
            {"role": "user", "content": "hello " * 50},
            {"role": "assistant", "content": "hi " * 100},
            {"role": "user", "content": "a cursed word"},
            {"role": "user", "content": "and another cursed word"},
            {"role": "assistant", "content": "[cut off here: refused]"},
        ]
        db.sessions.append_messages("s", said)
        agent = SessionAgent(model, db, "s")
        for words in ("go on", "and more", "and then"):
            await agent.run(words * 50)
        await between_turns(agent)
        assert agent.session_id != "s"
        assert "cursed" not in str([each["content"] for each in db.get_messages(agent.session_id)])

    wait(scenario())


def test_what_models_do_not_see_is_not_summarised(db: SessionDB, wait: Wait) -> None:
    said = conversation(db)
    partial: Any = {
        "role": "assistant",
        "content": "it begins",
        "holdfast": {"superseded": "the stream broke"},
    }
    db.sessions.append_message("s", partial)
    db.sessions.append_message("s", {"role": "user", "content": "the last words"})
    given: list[Message] = []

    class Keeping:
        def compress(self, messages: list[Message]) -> list[Message]:
            given.extend(messages)
            return [SUMMARY, *messages[-2:]]

    async def scenario() -> None:
        agent = an_agent(db, Keeping())
        await between_turns(agent)
        assert contents(given) == [*contents(said), "the last words"]
        # What follows the summary are the stored messages themselves, from the first that it kept.
        child = db.get_messages(agent.session_id)
        assert child == [SUMMARY, said[-1], partial, {"role": "user", "content": "the last words"}]

    wait(scenario())


class Counted(str):
    """The data URL of a large picture, which counts how often it is read as a whole."""

    __slots__ = ("reads",)
    reads: int

    def __deepcopy__(self, _: object) -> "Counted":
        return self

    def encode(self, *args: str, **more: str) -> bytes:
        self.reads += 1
        return super().encode(*args, **more)


def test_a_large_picture_is_read_once_to_try_every_way_without_it(db: SessionDB, wait: Wait) -> None:
    whole = WHOLE["image/jpeg"]
    url = Counted(data_url(whole[:2] + b"\xff" * LONG_TEXT + whole[2:], "image/jpeg"))
    url.reads = 0
    model = ScriptedModel(["hi", REFUSED, *[unless(lambda said: "base64" in said or "cursed" in said)] * 9])

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s")
        await agent.run("hello")
        with pytest.raises(ContentRejected):
            await agent.run("a cursed word")
        assert url.reads == 0
        assert (await agent.run({"role": "user", "content": [picture(url)]})).final_response == "fine"
        # Once to know it, and once for the note on record.
        assert url.reads == 2
        assert model.played == 6

    wait(scenario())


@given(JSON, JSON)
def test_a_digest_knows_a_content_again_and_no_other(one: object, other: object) -> None:
    assert digest(json.loads(json.dumps(one))) == digest(one)
    assert (digest(one) == digest(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )
