"""An answer in a form that the program asks for: checked, asked for again, and never made up."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Agent, AgentOptions, Host, Limits, ModelTraits, SessionDB, errors
from holdfast.testing import Call, ScriptedModel
from tests.agent.agent_fixtures import echo, require_valid

Wait = Callable[[Awaitable[Any]], Any]
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}


class Invoice(BaseModel):
    number: str
    total: float


GOOD = {"number": "A7", "total": 12.5}


@pytest.mark.parametrize(
    "script",
    [
        [Call("final_result", GOOD)],
        [json.dumps(GOOD)],
        [f"```json\n{json.dumps(GOOD)}\n```"],
        [Call("echo"), Call("final_result", GOOD)],
        [Call("final_result", {"number": "A7"}), Call("final_result", GOOD)],
        ["It is invoice A7 over 12.50.", Call("final_result", GOOD)],
        ["[1, 2]", "no", Call("final_result", GOOD)],
    ],
)
def test_the_answer_is_the_pydantic_model(script: list[Any], wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([*script, "next"])
        async with Agent(model, tools=[echo()]) as agent:
            result = await agent.run("Read the invoice", result_type=Invoice)
            assert result.output == Invoice(**GOOD)
            assert json.loads(result.final_response) == GOOD
            assert model.played == len(script)
            later = await agent.run("thanks")
            assert (later.final_response, later.output) == ("next", None)
            require_valid(model.requests[-1].messages)
            assert [each.name for each in model.requests[-1].tools] == ["echo"]

    wait(scenario())


def test_a_json_schema_gives_a_checked_dict(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([Call("final_result", {"total": "much"}), Call("final_result", {"total": 3})])
        async with Agent(model) as agent:
            assert (await agent.run("go", result_type=SCHEMA)).output == {"total": 3}
        assert "$.total: 'much' is not of type 'number'" in str(model.requests[1].messages[-1]["content"])

    wait(scenario())


@pytest.mark.parametrize("answer", ["no JSON", Call("final_result", {"total": 1})])
def test_after_three_answers_that_do_not_fit_the_turn_fails_and_is_on_record(answer: Any, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            model = ScriptedModel([answer] * 5)
            async with Agent(model, db, "s") as agent:
                with pytest.raises(errors.ResultDoesNotFit, match="3 of its answers did not fit") as failed:
                    await agent.run("go", result_type=Invoice)
                assert failed.value.attempts == model.played == 3
                assert db.turns.running("s") is None
                assert (await agent.run("hello")).state == "completed"
                require_valid(model.requests[-1].messages)

    wait(scenario())


def test_a_turn_that_meets_its_limit_first_has_no_result_and_says_so(wait: Wait) -> None:
    async def scenario() -> None:
        options = AgentOptions(limits=Limits(max_steps=1))
        async with Agent(ScriptedModel([Call("echo")]), tools=[echo()], options=options) as agent:
            with pytest.raises(errors.ResultDoesNotFit, match="the turn ended first"):
                await agent.run("go", result_type=Invoice)

    wait(scenario())


def test_a_model_that_calls_no_tools_is_refused_before_anything_is_stored(wait: Wait) -> None:
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            model = ScriptedModel(traits=ModelTraits("small", 8_000, calls_tools=False))
            async with Agent(model, db, "s") as agent:
                with pytest.raises(errors.InvalidInput, match="small calls no tools"):
                    await agent.run("go", result_type=Invoice)
            assert db.get_messages("s") == []

    wait(scenario())


def test_every_answer_of_a_host_has_the_form_of_its_options(wait: Wait) -> None:
    async def scenario() -> None:
        model = ScriptedModel([Call("final_result", GOOD), "no", json.dumps(GOOD)])
        async with Host(model=model, options=AgentOptions(result_type=Invoice)) as host:
            for _ in range(2):
                answer = await host.ask("s", "Read the invoice")
                assert Invoice.model_validate_json(answer.final_response) == Invoice(**GOOD)
        with pytest.raises(errors.ResultTypeInvalid):
            AgentOptions(result_type="Invoice")

    wait(scenario())


@pytest.mark.parametrize("answer", [Call("final_result", GOOD), json.dumps(GOOD)])
def test_a_message_that_joins_at_the_end_is_answered_in_the_form_as_well(answer: Any, wait: Wait) -> None:  # noqa: ANN401
    async def scenario() -> None:
        with SessionDB(":memory:") as db:
            later = {"number": "B8", "total": 1.0}

            def steer(_: Any) -> Any:  # noqa: ANN401
                db.inbox.put("s", {"role": "user", "content": "no, B8"}, mode="steer")
                return answer

            model = ScriptedModel([steer, Call("final_result", later)])
            async with Agent(model, db, "s") as agent:
                assert (await agent.run("Read it", result_type=Invoice)).output == Invoice(**later)
            require_valid(model.requests[-1].messages)
            assert "A7" in str(db.get_messages("s")), "what was answered first is on record"

    wait(scenario())
