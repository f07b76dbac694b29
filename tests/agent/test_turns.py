"""A turn: stored step by step, shown as events, and ended with its answer."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, SessionDB
from holdfast.agent import AgentOptions, Limits
from holdfast.core.error_text import ERROR_CHARACTERS
from holdfast.core.errors import KeyRejected, RequestRejected, StreamBroken, TurnAlreadyRunning
from holdfast.core.events import (
    Event,
    MessageJoined,
    Notice,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnStarted,
)
from holdfast.models.contract import ModelRequest
from holdfast.testing import Call, ScriptedModel, Tokens
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import Hold, a_tool, echo, require_valid

Wait = Callable[[Awaitable[Any]], Any]


def test_an_answer_is_on_record_when_the_turn_ends(db: SessionDB, wait: Wait) -> None:
    agent = Agent(ScriptedModel(["Hello you."]), db, "s")
    result = wait(agent.run("hello"))
    assert result.final_response == "Hello you."
    assert not result.interrupted
    assert [message["content"] for message in db.get_messages("s")] == ["hello", "Hello you."]
    turn = db.turns.get(result.turn_id)
    assert turn is not None
    assert turn.state == "completed"


@pytest.mark.clause("D10")
def test_the_message_and_each_finished_result_are_stored_before_the_model_is_asked(
    db: SessionDB, wait: Wait
) -> None:
    seen: list[list[str]] = []

    def look(answer: Any) -> Callable[[ModelRequest], Any]:  # noqa: ANN401
        def play(_: ModelRequest) -> Any:  # noqa: ANN401
            seen.append([message["role"] for message in db.get_messages("s")])
            return answer

        return play

    agent = Agent(ScriptedModel([look([Call("echo"), Call("echo")]), look("done")]), db, "s", tools=[echo()])
    wait(agent.run("go"))
    assert seen == [["user"], ["user", "assistant", "tool", "tool"]]


def test_everything_that_happens_is_an_event_in_order(db: SessionDB, wait: Wait) -> None:
    agent = Agent(ScriptedModel([["One. ", Call("echo", {"a": 1})], "Two."]), db, "s", tools=[echo()])

    async def kinds() -> list[Event]:
        return [event async for event in agent.stream("go")]

    events = wait(kinds())
    shown = (TurnStarted, TextDelta, ToolStarted, ToolFinished, TurnCompleted)
    assert [type(event) for event in events if isinstance(event, shown)] == [
        TurnStarted,
        TextDelta,
        ToolStarted,
        ToolFinished,
        TextDelta,
        TurnCompleted,
    ]


def test_parallel_calls_keep_the_order_of_their_results(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        first = Hold()

        async def second(context: ToolContext, arguments: dict[str, Any]) -> str:
            await first.reached.wait()
            first.opened.set()
            return "second"

        model = ScriptedModel([[Call("hold"), Call("second")], "done"])
        agent = Agent(model, db, "s", tools=[first.tool(), a_tool("second", second)])
        await agent.run("go")
        results = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
        assert results == ["held", "second"]

    wait(scenario())


def test_a_tool_that_fails_hurts_no_other_and_the_model_reads_why(db: SessionDB, wait: Wait) -> None:
    async def broken(context: ToolContext, arguments: dict[str, Any]) -> str:
        raise RuntimeError("the disk is on fire")

    model = ScriptedModel([[Call("broken"), Call("echo"), Call("missing"), Call("echo", "[1")], "done"])
    agent = Agent(model, db, "s", tools=[a_tool("broken", broken), echo()])
    assert wait(agent.run("go")).final_response == "done"
    results = [m["content"] for m in model.requests[1].messages if m["role"] == "tool"]
    assert "the disk is on fire" in str(results[0])
    assert results[1] == "echo {}"
    assert "no tool 'missing'" in str(results[2])
    assert "not a JSON object: [1" in str(results[3])
    require_valid(model.requests[1].messages)


def test_a_tool_that_takes_too_long_is_stopped_and_the_turn_goes_on(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        model = ScriptedModel([[Call("slow")], "done"])
        agent = Agent(model, db, "s", tools=[a_tool("slow", hold, timeout=0.01)])
        assert (await agent.run("go")).final_response == "done"
        assert hold.left.is_set()
        assert "took longer than" in str(model.requests[1].messages[-1]["content"])

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_steering_message_joins_the_turn_at_its_next_step(db: SessionDB, wait: Wait) -> None:
    def steer(_: ModelRequest) -> Any:  # noqa: ANN401
        db.inbox.put("s", {"role": "user", "content": "in French"}, mode="steer")
        return [Call("echo")]

    model = ScriptedModel([steer, "Voilà."])
    agent = Agent(model, db, "s", tools=[echo()])
    wait(agent.run("say it"))
    assert model.requests[1].messages[-1]["content"] == "in French"
    assert db.inbox.waiting("s") == []


@pytest.mark.clause("I1")
def test_a_steering_message_that_meets_no_tool_call_is_answered_all_the_same(
    db: SessionDB, wait: Wait
) -> None:
    def steer(_: ModelRequest) -> str:
        db.inbox.put("s", {"role": "user", "content": "and in French"}, mode="steer")
        return "Here."

    model = ScriptedModel([steer, "Voilà."])
    agent = Agent(model, db, "s")

    async def events() -> list[Event]:
        return [event async for event in agent.stream("say it")]

    assert any(isinstance(event, MessageJoined) for event in wait(events()))
    said = [message["content"] for message in db.get_messages("s")]
    assert said == ["say it", "Here.", "and in French", "Voilà."]


def test_a_failing_model_fails_the_turn_with_its_own_words_and_the_next_turn_works(
    db: SessionDB, wait: Wait
) -> None:
    model = ScriptedModel([["half ", KeyRejected("m", "expired")], "fine again"])
    agent = Agent(model, db, "s")
    with pytest.raises(KeyRejected, match="expired"):
        wait(agent.run("one"))
    (failed,) = [m for m in db.get_messages("s") if m["role"] == "assistant"]
    assert str(failed["content"]).startswith("half")
    assert wait(agent.run("two")).final_response == "fine again"
    require_valid(model.requests[1].messages)


def test_a_failed_turn_is_said_in_the_stream(db: SessionDB, wait: Wait) -> None:
    agent = Agent(ScriptedModel([KeyRejected("m", "expired")]), db, "s")

    async def last() -> Event:
        return [event async for event in agent.stream("one")][-1]

    event = wait(last())
    assert isinstance(event, TurnFailed)
    assert "expired" in event.error


def test_an_answer_without_its_end_is_a_broken_stream(db: SessionDB, wait: Wait) -> None:
    class Breaks(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
            async for piece in super().stream(request):
                yield piece
                return

    with pytest.raises(StreamBroken):
        wait(Agent(Breaks(["never whole"]), db, "s").run("go"))


def test_a_turn_that_reaches_its_limit_says_so_and_what_was_done(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel([[Call("echo"), Tokens(10)]] * 10)
    agent = Agent(model, db, "s", tools=[echo()], options=AgentOptions(limits=Limits(max_steps=3)))
    result = wait(agent.run("go"))
    assert result.state == "completed"
    assert result.steps == 3
    assert result.usage.input == 30
    assert "limit of 3 steps" in result.final_response
    assert result.final_response.count("echo: done") == 3


def test_an_answer_cut_at_the_output_limit_is_noticed(db: SessionDB, wait: Wait) -> None:
    from holdfast.models.contract import Finished, TextPiece

    class Cut(ScriptedModel):
        async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
            yield TextPiece("as far as")
            yield Finished("length")

    async def notices() -> list[str]:
        return [e.text async for e in Agent(Cut(), db, "s").stream("go") if isinstance(e, Notice)]

    assert "output limit" in wait(notices())[0]


def test_one_agent_runs_one_turn_at_a_time(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        agent = Agent(ScriptedModel([hold]), db, "s")
        stream = agent.stream("go")
        await anext(stream)
        with pytest.raises(TurnAlreadyRunning):
            await agent.run("me too")
        hold.opened.set()
        assert isinstance([event async for event in stream][-1], TurnCompleted)

    wait(scenario())


def test_an_agent_without_a_store_keeps_its_conversation_in_memory(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["one", "two"])
        agent = Agent(model)
        await agent.run("first")
        await agent.run("second")
        assert [m["content"] for m in model.requests[1].messages] == ["first", "one", "second"]
        await agent.close()

    wait(scenario())


def test_what_another_agent_added_to_the_session_is_seen(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel(["one", "three"])
    agent, other = Agent(model, db, "s"), Agent(ScriptedModel(["two"]), db, "s")
    wait(agent.run("a"))
    wait(other.run("b"))
    wait(agent.run("c"))
    assert [m["content"] for m in model.requests[1].messages] == ["a", "one", "b", "two", "c"]


@pytest.mark.parametrize("kind", [RuntimeError, RequestRejected])
def test_the_words_of_a_model_that_fails_are_bounded_in_the_event_and_in_the_store(
    db: SessionDB, wait: Wait, kind: type[Exception]
) -> None:
    words = "\0" + "x" * 5_000_000

    def fail(_: ModelRequest) -> Any:  # noqa: ANN401
        raise RuntimeError(words) if kind is RuntimeError else RequestRejected("m", words)

    agent = Agent(ScriptedModel([fail]), db, "s")

    async def ends() -> list[Event]:
        return [event async for event in agent.stream("go") if isinstance(event, TurnFailed)]

    [failed] = wait(ends())
    assert isinstance(failed, TurnFailed)
    assert len(failed.error) < 2 * ERROR_CHARACTERS
    assert "[cut here: " in failed.error
    assert all(len(str(each)) < 3 * ERROR_CHARACTERS for each in db.sessions.read("s"))
