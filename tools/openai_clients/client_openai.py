# mypy: ignore-errors
"""The `openai` SDK: chat completions and responses, plain loops as its documentation shows them."""

import json

from openai import OpenAI
from pydantic import BaseModel
from steps import BOTH, HELLO, MODEL, REPORT, ROME, WEATHER, expect, expect_report, expect_tools, run, weather

sdk = OpenAI()


class Report(BaseModel):
    city: str
    degrees: int


def chat():
    answer = sdk.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": HELLO}])
    return expect(answer.choices[0].message.content, "Hello")


def stream():
    chunks = sdk.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": HELLO}], stream=True
    )
    return expect("".join(each.choices[0].delta.content or "" for each in chunks), "Hello")


def loop(question, **more):
    messages = [{"role": "user", "content": question}]
    for _ in range(5):
        answer = sdk.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER], **more)
        message = answer.choices[0].message
        if not message.tool_calls:
            return message.content
        messages.append(message)
        for call in message.tool_calls:
            result = weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    raise AssertionError("it called tools without end")


def tools():
    return expect_tools(loop(ROME), "Rome")


def parallel():
    return expect_tools(loop(BOTH), "Rome", "Oslo")


def streamed_tools():
    messages = [{"role": "user", "content": ROME}]
    with sdk.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as events:
        for _ in events:
            pass
        message = events.get_final_completion().choices[0].message
    call = message.tool_calls[0]
    result = weather(**json.loads(call.function.arguments))
    messages += [
        message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": result},
    ]
    answer = sdk.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    return expect_tools(answer.choices[0].message.content, "Rome")


def responses(store=True):
    flat = {"type": "function", **WEATHER["function"]}
    items, before = [{"role": "user", "content": BOTH}], None
    for _ in range(5):
        answer = sdk.responses.create(
            model=MODEL, input=items, tools=[flat], store=store, previous_response_id=before
        )
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            if store:
                read = sdk.responses.retrieve(answer.id)
                expect(read.output_text, answer.output_text)
            return expect_tools(answer.output_text, "Rome", "Oslo")
        results = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": weather(**json.loads(call.arguments)),
            }
            for call in calls
        ]
        if store:
            items, before = results, answer.id
        else:
            items += [*answer.output, *results]
    raise AssertionError("it called tools without end")


def form():
    messages = [{"role": "user", "content": REPORT}]
    answer = sdk.chat.completions.parse(model=MODEL, messages=messages, response_format=Report)
    report = answer.choices[0].message.parsed
    other = sdk.responses.parse(model=MODEL, input=REPORT, text_format=Report).output_parsed
    expect_report(other.city, other.degrees)
    return expect_report(report.city, report.degrees)


run(
    chat=chat,
    stream=stream,
    tools=tools,
    parallel=parallel,
    streamed_tools=streamed_tools,
    responses=responses,
    unstored=lambda: responses(store=False),
    form=form,
)
