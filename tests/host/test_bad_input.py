"""What can't be sent to a model is refused at every door of the library, and nothing of it is stored."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.agent import SessionAgent
from holdfast.core.contract import Message
from holdfast.core.errors import ImportRefused, MessageInvalid, MessageTooLong
from holdfast.host import Beginning
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SessionStart
from holdfast.sessions.conversation_operations import begin_conversation
from holdfast.testing import ScriptedModel
from tests.agent.agent_fixtures import Hold
from tests.core.picture_files import data_url, picture, png
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]
pytestmark = pytest.mark.clause("I8")

BAD: list[Any] = [
    [{"type": "zzz"}],
    [{"type": "text", "text": "look"}, picture(data_url(png()[:-20]))],
    [{"type": "text"}],
    [],
]


def said(content: Any) -> Message:  # noqa: ANN401 - whatever a caller passes
    return {"role": "user", "content": content}


@pytest.mark.parametrize("content", BAD)
def test_the_host_refuses_it_in_every_call(db: SessionDB, wait: Wait, content: object) -> None:
    hold = Hold()

    async def scenario() -> None:
        async with a_host(db, [hold, "two"]) as host:
            await host.send("s", "first")
            await hold.reached.wait()
            waiting = await host.send("s", "second")
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "send": lambda: host.send("s", said(content)),
                "send to a new one": lambda: host.send("fresh", said(content)),
                "steer": lambda: host.send("s", said(content), "steer"),
                "interrupt": lambda: host.send("s", said(content), "interrupt"),
                "begin": lambda: host.begin("fresh", said(content)),
                "replace": lambda: host.replace_waiting(waiting.inbox_id, said(content)),
            }
            if content:  # what was said before may be empty
                calls["history"] = lambda: host.begin("fresh", "hi", Beginning([said(content)]))
            for name, call in calls.items():
                with pytest.raises(MessageInvalid):
                    await call()
                assert db.get_session("fresh") is None, name
            assert [each.message["content"] for each in await host.records.waiting("s")] == ["second"]
            hold.opened.set()
            await until_turns_end(host, "s", 2)

    wait(scenario())


@pytest.mark.parametrize("content", BAD)
def test_an_agent_refuses_it(db: SessionDB, wait: Wait, content: object) -> None:
    async def scenario() -> None:
        agent = SessionAgent(ScriptedModel(["fine"]), db, "s")
        with pytest.raises(MessageInvalid):
            await agent.run(said(content))
        assert (await agent.run("hello")).final_response == "fine"
        assert [each["content"] for each in db.get_messages("s")] == ["hello", "fine"]
        await agent.close()

    wait(scenario())


@pytest.mark.parametrize("content", BAD[:3])
def test_the_inbox_and_an_import_refuse_it(db: SessionDB, content: object) -> None:
    db.create_session("s", source="cli")
    kept = db.inbox.put("s", said("waits"))
    with pytest.raises(MessageInvalid):
        db.inbox.put("s", said(content))
    with pytest.raises(MessageInvalid):
        db.inbox.edit(kept.id, said(content))
    with pytest.raises(MessageInvalid):
        begin_conversation(SessionStart("fresh", "cli"), said(content), holder="me", lease_seconds=1.0)
    assert [each.message for each in db.inbox.waiting("s")] == [said("waits")]
    lines = db.export_session("s")
    db.delete_session("s", force=True)
    bad = {"type": "zzz"}
    with pytest.raises(ImportRefused, match="part 1"):
        db.import_session([line.replace('"waits"', f'[{{"type":"{bad["type"]}"}}]') for line in lines])
    assert db.get_session("s") is None


def test_a_message_that_can_not_fit_the_window_is_refused_before_it_is_stored(
    db: SessionDB, wait: Wait
) -> None:
    long = "word " * 4_000

    async def scenario() -> None:
        model = ScriptedModel(["fine"], context_window=1_000)
        async with a_host(db, lambda _: model) as host:
            host.model = ModelTraits("small", 1_000)
            for call in (host.send("s", long), host.begin("s", long)):
                with pytest.raises(MessageTooLong, match="1,000"):
                    await call
            assert db.get_session("s") is None
        agent = SessionAgent(model, db, "alone")
        with pytest.raises(MessageTooLong):
            await agent.run(long)
        await agent.close()
        assert model.played == 0

    wait(scenario())
