"""A whole turn of the agent over real HTTP: tools, a retry, an interrupt, and thoughts that go back."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.core.contract import Message
from holdfast.core.errors import ModelBusy
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.retrying_model import RetryingModel
from holdfast.testing import Call, Delay, FakeClock
from holdfast.testing.http_server import LoopbackServer
from holdfast.testing.scripted_server import ScriptedServer
from tests.agent.agent_fixtures import echo
from tests.models.model_fixtures import with_server
from tests.models.test_anthropic_native import begin, end, text, thought, tool
from tests.models.test_anthropic_native import with_server as with_anthropic


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "holdfast.db") as opened:
        yield opened


def roles(messages: list[Any]) -> list[str]:
    return [message["role"] for message in messages]


def test_tools_run_and_their_results_reach_the_server_after_a_retry(db: SessionDB) -> None:
    script: list[Any] = [
        ModelBusy("m", "slow down", 5),
        [Call("echo", {"a": 1}), Call("echo", {"b": 2})],
        "Done.",
    ]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def ask(model: OpenAICompatible, server: ScriptedServer) -> None:
        agent = Agent(RetryingModel(model, FakeClock(), sleep=sleep), db, "s", tools=[echo()])
        result = await agent.run("go")
        assert result.final_response == "Done."
        assert roles(server.asked[-1]["messages"]) == ["system", "user", "assistant", "tool", "tool"]
        assert [each["content"] for each in server.asked[-1]["messages"][-2:]] == [
            'echo {"a": 1}',
            'echo {"b": 2}',
        ]
        assert all("holdfast" not in each for each in server.asked[-1]["messages"])

    with_server(script, ask)
    assert len(waits) == 1
    assert waits[0] >= 5


@pytest.mark.clause("I6")
def test_an_interrupt_ends_the_turn_and_its_request_on_the_wire_within_a_second(db: SessionDB) -> None:
    async def ask(model: OpenAICompatible, server: ScriptedServer) -> None:
        agent = Agent(model, db, "s")
        turn = asyncio.ensure_future(agent.run("tell a story"))
        while not server.requests:
            await asyncio.wait({turn}, timeout=0.01)
        began = time.monotonic()
        agent.interrupt("stop")
        result = await turn
        assert result.state == "interrupted"
        await asyncio.wait_for(server.requests[0].abandoned.wait(), 1)
        assert time.monotonic() - began < 1

    with_server([["Once upon a time ", Delay(3600)]], ask)
    assert db.get_messages("s")[0]["content"] == "tell a story"


@pytest.mark.slow
def test_signed_thoughts_are_stored_with_the_turn_and_sent_back_in_the_next_step(db: SessionDB) -> None:
    calling = [begin(), *thought(0, "hm", "signed"), *text(1, "I look."), *tool(2, "a", "{}", name="echo")]
    steps = iter([[*calling, *end("tool_use")], [begin(), *text(0, "Done."), *end()]])

    async def ask(model: Any, server: LoopbackServer) -> list[Message]:  # noqa: ANN401
        agent = Agent(model, db, "s", tools=[echo()])
        await agent.run("go")
        second: list[Message] = server.requests[1].json()["messages"]
        return second

    sent = with_anthropic(lambda: next(steps), ask)
    assert roles(list(sent)) == ["user", "assistant", "user"]
    assert sent[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "signed"}  # type: ignore[index]
    assert db.get_messages("s")[-1]["content"] == "Done."
