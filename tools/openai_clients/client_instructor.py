# mypy: ignore-errors
"""instructor: results in a form, each way that it has; its tools are these forms."""

from collections.abc import Iterable

import instructor
from openai import OpenAI
from pydantic import BaseModel
from steps import BOTH, HELLO, MODEL, REPORT, expect, expect_report, run


class Report(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


def created(mode, question=REPORT, model=Report, **more):
    client = instructor.from_openai(OpenAI(), mode=mode)
    messages = [{"role": "user", "content": question}]
    return client.chat.completions.create(
        model=MODEL, messages=messages, response_model=model, max_retries=0, **more
    )


def tools():
    report = created(instructor.Mode.TOOLS)
    return expect_report(report.city, report.degrees)


def parallel():
    found = list(created(instructor.Mode.PARALLEL_TOOLS, BOTH, Iterable[Report]))
    return expect(sorted(each.city for each in found), "Rome", "Oslo")


def streamed_tools():
    client = instructor.from_openai(OpenAI(), mode=instructor.Mode.TOOLS)
    messages = [{"role": "user", "content": REPORT}]
    *_, last = client.chat.completions.create_partial(model=MODEL, messages=messages, response_model=Report)
    return expect_report(last.city, last.degrees)


def form():
    for mode in (instructor.Mode.JSON, instructor.Mode.JSON_SCHEMA, instructor.Mode.MD_JSON):
        report = created(mode)
        expect_report(report.city, report.degrees)
    return "JSON, JSON_SCHEMA and MD_JSON"


def chat():
    answer = created(instructor.Mode.TOOLS, HELLO, None)
    return expect(answer.choices[0].message.content, "Hello")


def stream():
    chunks = created(instructor.Mode.TOOLS, HELLO, None, stream=True)
    return expect("".join(each.choices[0].delta.content or "" for each in chunks), "Hello")


run(chat=chat, stream=stream, tools=tools, parallel=parallel, streamed_tools=streamed_tools, form=form)
