# mypy: ignore-errors
"""smolagents: an agent that calls tools until it gives its final answer, and a model with a format."""

import json

from smolagents import ChatMessage, OpenAIServerModel, ToolCallingAgent, tool
from steps import BASE, BOTH, HELLO, KEY, MODEL, REPORT, ROME, expect, expect_report, expect_tools, run
from steps import weather as plain_weather

model = OpenAIServerModel(model_id=MODEL, api_base=BASE, api_key=KEY)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}


@tool
def weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name

    """
    return plain_weather(city)


def hello():
    return [ChatMessage(role="user", content=[{"type": "text", "text": HELLO}])]


def agent(**more):
    return ToolCallingAgent(tools=[weather], model=model, max_steps=4, verbosity_level=0, **more)


def form():
    said = [ChatMessage(role="user", content=[{"type": "text", "text": REPORT}])]
    named = {"name": "report", "schema": SCHEMA}
    answer = model.generate(said, response_format={"type": "json_schema", "json_schema": named})
    report = json.loads(answer.content)
    return expect_report(report["city"], report["degrees"])


run(
    chat=lambda: expect(model.generate(hello()).content, "Hello"),
    stream=lambda: expect("".join(each.content or "" for each in model.generate_stream(hello())), "Hello"),
    tools=lambda: expect_tools(agent().run(ROME), "Rome"),
    parallel=lambda: expect_tools(agent().run(BOTH), "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(agent(stream_outputs=True).run(ROME), "Rome"),
    form=form,
)
