# mypy: ignore-errors
"""llm: its Python API, with a model of an OpenAI-compatible server as its settings file would name it."""

import json

from llm.default_plugins.openai_models import Chat
from pydantic import BaseModel
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


class Report(BaseModel):
    city: str
    degrees: int


model = Chat(
    "holdfast",
    model_name=MODEL,
    api_base=BASE,
    supports_tools=True,
    supports_schema=True,
)
model.key = KEY


def form():
    report = json.loads(model.prompt(REPORT, schema=Report, stream=False).text())
    return expect_report(report["city"], report["degrees"])


def chain(question, stream):
    return model.chain(question, tools=[weather], stream=stream).text()


run(
    chat=lambda: expect(model.prompt(HELLO, stream=False).text(), "Hello"),
    stream=lambda: expect("".join(model.prompt(HELLO, stream=True)), "Hello"),
    tools=lambda: expect_tools(chain(ROME, stream=False), "Rome"),
    parallel=lambda: expect_tools(chain(BOTH, stream=False), "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(chain(ROME, stream=True), "Rome"),
    form=form,
)
