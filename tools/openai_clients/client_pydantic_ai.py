# mypy: ignore-errors
"""pydantic-ai: an agent with a tool, and results by tool, by the model's own format and by prompt."""

import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, PromptedOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from steps import (
    BASE,
    BOTH,
    HELLO,
    KEY,
    MODEL,
    REPORT,
    ROME,
    expect,
    expect_report,
    expect_tools,
    run,
    weather,
)

provider = OpenAIProvider(base_url=BASE, api_key=KEY)
model = OpenAIChatModel(MODEL, provider=provider)
responses_model = OpenAIResponsesModel(MODEL, provider=provider)


class Report(BaseModel):
    city: str
    degrees: int


async def written(agent, question):
    async with agent.run_stream(question) as result:
        return await result.get_output()


def by_tool(of):
    return Agent(of, tools=[weather])


def form():
    for kind in (Report, NativeOutput(Report), PromptedOutput(Report)):
        report = Agent(model, output_type=kind).run_sync(REPORT).output
        expect_report(report.city, report.degrees)
    # A result in a form after a tool has run.
    report = Agent(model, tools=[weather], output_type=Report).run_sync(ROME).output
    expect_report(report.city, report.degrees)
    return "by tool, by format and by prompt"


run(
    chat=lambda: expect(Agent(model).run_sync(HELLO).output, "Hello"),
    stream=lambda: expect(asyncio.run(written(Agent(model), HELLO)), "Hello"),
    tools=lambda: expect_tools(by_tool(model).run_sync(ROME).output, "Rome"),
    parallel=lambda: expect_tools(by_tool(model).run_sync(BOTH).output, "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(asyncio.run(written(by_tool(model), ROME)), "Rome"),
    responses=lambda: expect_tools(by_tool(responses_model).run_sync(BOTH).output, "Rome", "Oslo"),
    form=form,
)
