"""A turn does what its client asked for, also when it is gone on with after a crash."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.agent import SessionAgent
from holdfast.agent.client_request import ClientRequest, with_request
from holdfast.models.contract import ToolSchema
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import echo

Wait = Callable[[Awaitable[Any]], Any]
ASKED = ClientRequest(
    tools=(ToolSchema("weather", "", {"type": "object", "properties": {}}),),
    own_tools=False,
    memory=False,
    options={"temperature": 0.5},
)


def test_a_turn_that_is_resumed_still_knows_the_tools_of_its_client(db: SessionDB, wait: Wait) -> None:
    db.create_session("s", source="api")
    db.turns.open("s", with_request({"role": "user", "content": "warm?"}, ASKED))

    async def scenario() -> None:
        model = ScriptedModel([["I look.", Call("weather", id="a"), Call("weather", id="b")], "It is warm."])
        agent = SessionAgent(model, db, "s", tools=[echo()])
        handed = await agent.resume()
        assert (handed.state, handed.final_response) == ("completed", "I look.")
        (request,) = model.requests
        assert [tool.name for tool in request.tools] == ["weather"]
        assert (request.options, request.system) == ({"temperature": 0.5}, "")
        calls = db.get_messages("s")[-1]["tool_calls"]
        assert [call["id"] for call in calls] == ["a", "b"]
        # A message that asks for nothing gets the agent's own tools again.
        await agent.run("never mind")
        assert [tool.name for tool in model.requests[-1].tools] == ["echo"]
        assert sum("without giving one" in str(each) for each in model.requests[-1].messages) == 2
        await agent.close()

    wait(scenario())
