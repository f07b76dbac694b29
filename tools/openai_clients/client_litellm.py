# mypy: ignore-errors
"""litellm: `completion` with a model of an OpenAI-compatible server."""

import json

import litellm
from pydantic import BaseModel
from steps import (
    BASE,
    BOTH,
    HELLO,
    KEY,
    MODEL,
    REPORT,
    ROME,
    WEATHER,
    expect,
    expect_report,
    expect_tools,
    run,
    weather,
)

WHERE = {"model": f"openai/{MODEL}", "api_base": BASE, "api_key": KEY}


class Report(BaseModel):
    city: str
    degrees: int


def ask(messages, **more):
    return litellm.completion(messages=messages, **WHERE, **more)


def chat():
    return expect(ask([{"role": "user", "content": HELLO}]).choices[0].message.content, "Hello")


def stream():
    chunks = ask([{"role": "user", "content": HELLO}], stream=True)
    return expect("".join(each.choices[0].delta.content or "" for each in chunks), "Hello")


def loop(question, streamed=False):
    messages = [{"role": "user", "content": question}]
    for _ in range(5):
        if streamed:
            chunks = list(ask(messages, tools=[WEATHER], stream=True))
            answer = litellm.stream_chunk_builder(chunks, messages=messages)
        else:
            answer = ask(messages, tools=[WEATHER], tool_choice="auto")
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message.model_dump())
        for call in message.tool_calls:
            result = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError("it called tools without end")


def form():
    answer = ask([{"role": "user", "content": REPORT}], response_format=Report)
    report = Report.model_validate_json(answer.choices[0].message.content)
    return expect_report(report.city, report.degrees)


run(
    chat=chat,
    stream=stream,
    tools=lambda: expect_tools(loop(ROME), "Rome"),
    parallel=lambda: expect_tools(loop(BOTH), "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(loop(ROME, streamed=True), "Rome"),
    form=form,
)
