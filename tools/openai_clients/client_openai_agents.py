# mypy: ignore-errors
"""openai-agents: an agent with a tool and an output type, over responses and over chat completions."""

import asyncio

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from steps import BOTH, HELLO, MODEL, REPORT, ROME, expect, expect_report, expect_tools, run
from steps import weather as plain_weather

set_tracing_disabled(True)


@function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    return plain_weather(city)


class Report(BaseModel):
    city: str
    degrees: int


def agent(kind, **more):
    return Agent(
        name="helper", instructions="Be brief.", model=kind(MODEL, openai_client=AsyncOpenAI()), **more
    )


def answered(question, kind=OpenAIChatCompletionsModel, **more):
    return Runner.run_sync(agent(kind, **more), question).final_output


async def written(question, kind=OpenAIResponsesModel, **more):
    result = Runner.run_streamed(agent(kind, **more), question)
    async for _ in result.stream_events():
        pass
    return result.final_output


def form():
    for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
        report = answered(REPORT, kind, output_type=Report)
        expect_report(report.city, report.degrees)
    report = answered(ROME, OpenAIResponsesModel, tools=[weather], output_type=Report)
    expect_report(report.city, report.degrees)
    return "over both APIs, also after a tool"


run(
    chat=lambda: expect(answered(HELLO), "Hello"),
    stream=lambda: expect(asyncio.run(written(HELLO)), "Hello"),
    tools=lambda: expect_tools(answered(ROME, tools=[weather]), "Rome"),
    parallel=lambda: expect_tools(answered(BOTH, tools=[weather]), "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(asyncio.run(written(ROME, tools=[weather])), "Rome"),
    responses=lambda: expect_tools(answered(BOTH, OpenAIResponsesModel, tools=[weather]), "Rome", "Oslo"),
    form=form,
)
