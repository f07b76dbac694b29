"""`Agent` as a program uses it: by names and plain functions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, AgentOptions, MemoryManager, Model, SessionDB, errors, events, open_model, tool
from holdfast.testing import Call, ScriptedModel
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import until

Wait = Callable[[Awaitable[Any]], Any]


def rate(currency: str) -> float:
    """The price of one unit of a currency in euros."""
    return {"USD": 0.92}[currency]


def test_a_model_by_name_and_a_function_as_a_tool(serve: Any, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        async with serve([Call("rate", {"currency": "USD"}), "2.76 euros"]) as server:
            async with Agent("openai:gpt-5-mini", tools=[rate]) as agent:
                result = await agent.run("What is 3 USD?")
            assert result.final_response == "2.76 euros"
            assert server.asked[1]["messages"][-1]["content"] == "0.92"
            assert server.asked[0]["tools"][0]["function"]["name"] == "rate"

    wait(scenario())


def test_the_stream_is_of_typed_events(wait: Wait) -> None:
    async def scenario() -> None:
        async with Agent(ScriptedModel(["two words"])) as agent:
            said = [event async for event in agent.stream("go")]
        assert [each.text for each in said if isinstance(each, events.TextDelta)] == ["two ", "words"]
        assert isinstance(said[-1], events.TurnCompleted)

    wait(scenario())


def test_a_session_in_a_store_by_address_goes_on_where_it_was(wait: Wait) -> None:
    async def say(text: str, answer: str) -> list[Any]:
        async with Agent(ScriptedModel([answer]), store="sqlite:///chats.db", session="monday") as agent:
            return [each["content"] for each in (await agent.run(text)).messages]

    async def scenario() -> None:
        await say("one", "first")
        assert await say("two", "second") == ["one", "first", "two", "second"]

    wait(scenario())
    with SessionDB("chats.db") as db:
        assert len(db.get_messages("monday")) == 4


def test_the_former_names_of_the_arguments_still_fit(wait: Wait) -> None:
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            memory = MemoryManager(db)
            agent = Agent(model=ScriptedModel(["fine"]), session_db=db, session_id="s", memory=memory)
            assert (await agent.run("hi")).session_id == "s"
            await agent.close()
            assert db.get_session("s") is not None, "the store was given, so it stays open"

    wait(scenario())


def test_what_an_agent_opened_is_closed_and_what_it_was_given_is_not(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel()
        async with Agent(model, store="sqlite:///chats.db") as agent:
            await agent.run("hi")
        assert not model.closed

    wait(scenario())


def test_memory_by_object_hears_every_turn_before_the_agent_is_closed(
    wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    remembered = RecordingProvider("mine")

    async def scenario() -> None:
        async with Agent(ScriptedModel(["noted"]), store="sqlite:///chats.db", memory=[remembered]) as agent:
            await agent.run("The key is under the mat")

    with caplog.at_level(logging.WARNING):
        wait(scenario())
    assert [turn.user_content for turn in remembered.turns] == ["The key is under the mat"]
    assert caplog.messages == [], "nothing is owed, and nothing is read from a closed store"


def test_a_model_of_ones_own_and_an_opened_one_fit(serve: Any, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        async with serve(["from the server"]):
            opened: Model = await open_model("openai:anything", context_window=32_000)
            assert opened.traits.context_window == 32_000
            async with Agent(opened) as agent:
                assert (await agent.run("hi")).final_response == "from the server"
            await opened.close()

    wait(scenario())


def test_run_sync_works_in_a_script_and_inside_a_running_loop() -> None:
    with Agent(ScriptedModel(["one", "two"]), store="sqlite:///chats.db", session="s") as agent:
        assert agent.run_sync("in a script").final_response == "one"

        async def in_a_notebook() -> str:
            return agent.run_sync("in a loop").final_response

        assert asyncio.run(in_a_notebook()) == "two"
    with pytest.raises(errors.AgentClosed, match="Make a new Agent"):
        agent.run_sync("too late")


def test_a_system_prompt_takes_the_place_of_the_built_in_one(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel()
        async with Agent(model, options=AgentOptions(system_prompt="You sell boats.")) as agent:
            await agent.run("hi")
        assert model.requests[0].system == "You sell boats."

    wait(scenario())


@tool(needs_approval=True)
def refund(order: int) -> str:
    """Pay an order back."""
    return f"order {order} is paid back"


async def small_orders(request: Any) -> bool | None:  # noqa: ANN401
    return request.kind == "refund" and bool(request.arguments["order"] == 7)


class Nothing:
    async def approve(self, request: Any) -> bool | None:  # noqa: ANN401
        return None


async def broken(request: Any) -> bool | None:  # noqa: ANN401
    raise RuntimeError("no rules today")


@pytest.mark.parametrize(
    ("policy", "order", "answer"),
    [
        (small_orders, 7, "order 7 is paid back"),
        (small_orders, 8, "refund was not run: the program's approval policy refuses it"),
        (Nothing(), 7, "refund was not run: nobody is there to allow it"),
        (None, 7, "refund was not run: nobody is there to allow it"),
        (broken, 7, "refund was not run: the program's approval policy failed"),
    ],
)
def test_a_policy_decides_what_needs_approval(policy: Any, order: int, answer: str, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        model = ScriptedModel([Call("refund", {"order": order}), "done"])
        async with Agent(model, tools=[refund], options=AgentOptions(approve=policy)) as agent:
            await agent.run("go")
        assert model.requests[1].messages[-1]["content"] == answer

    wait(scenario())


def test_hooks_run_before_and_after_each_tool_and_may_answer_for_it(wait: Wait) -> None:
    seen: list[str] = []

    async def before(name: str, arguments: dict[str, Any], context: Any) -> str | None:  # noqa: ANN401
        seen.append(f"before {name} {arguments}")
        return "from the cache" if arguments["currency"] == "GBP" else None

    async def after(name: str, result: Any, context: Any) -> None:  # noqa: ANN401
        seen.append(f"after {name} {result.text} {context.call_id != ''}")
        if result.text == "0.92":
            raise RuntimeError("the log is full")

    async def scenario() -> None:
        calls = [Call("rate", {"currency": "USD"}), Call("rate", {"currency": "GBP"})]
        model = ScriptedModel([calls, "done"])
        options = AgentOptions(before_tool=before, after_tool=after)
        async with Agent(model, tools=[rate], options=options) as agent:
            await agent.run("go")
        first, second = (str(each["content"]) for each in model.requests[1].messages[-2:])
        assert first.startswith("0.92\n\n[rate ran, and after_tool failed: RuntimeError")
        assert second == "from the cache"

    wait(scenario())
    assert seen == [
        "before rate {'currency': 'USD'}",
        "before rate {'currency': 'GBP'}",
        "after rate 0.92 True",
    ]


@pytest.mark.clause("D9")
def test_what_could_not_be_delivered_is_said_and_sent_at_the_next_start(
    wait: Wait, caplog: pytest.LogCaptureFixture
) -> None:
    async def say(provider: RecordingProvider) -> None:
        async with Agent(ScriptedModel(), store="sqlite:///chats.db", memory=[provider]) as agent:
            await agent.run("remember me")

    async def start_again(provider: RecordingProvider) -> None:
        async with Agent(ScriptedModel(), store="sqlite:///chats.db", memory=[provider]):
            await until(lambda: bool(provider.turns))

    def refuse(_: Any) -> None:  # noqa: ANN401
        raise errors.ProviderUnavailable("mine")

    down, up = RecordingProvider("mine"), RecordingProvider("mine")
    down.before = refuse
    with caplog.at_level(logging.WARNING):
        wait(say(down))
    assert "agent.owed: 1 turn is owed to mine; it will be sent at the next start" in caplog.messages
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        wait(start_again(up))
    assert [turn.user_content for turn in up.turns] == ["remember me"]
    assert caplog.messages == []
