# mypy: ignore-errors
"""langchain-openai: `ChatOpenAI` with bound tools and structured output, over both of OpenAI's APIs."""

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel
from steps import BASE, BOTH, HELLO, KEY, MODEL, REPORT, ROME, expect, expect_report, expect_tools, run
from steps import weather as plain_weather

model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY)
responses_model = ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, use_responses_api=True)
weather = tool(plain_weather)


class Report(BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


def text_of(message):
    content = message.content
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def loop(chat_model, question, streamed=False):
    bound, messages = chat_model.bind_tools([weather]), [HumanMessage(question)]
    for _ in range(5):
        if streamed:
            chunks = list(bound.stream(messages))
            answer = chunks[0]
            for chunk in chunks[1:]:
                answer += chunk
        else:
            answer = bound.invoke(messages)
        if not answer.tool_calls:
            return text_of(answer)
        messages.append(answer)
        for call in answer.tool_calls:
            messages.append(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]))
    raise AssertionError("it called tools without end")


def form():
    for method in ("json_schema", "function_calling", "json_mode"):
        report = model.with_structured_output(Report, method=method).invoke(REPORT + " Answer in JSON.")
        expect_report(report.city, report.degrees)
    return "json_schema, function_calling and json_mode"


run(
    chat=lambda: expect(model.invoke(HELLO).content, "Hello"),
    stream=lambda: expect("".join(each.content for each in model.stream(HELLO)), "Hello"),
    tools=lambda: expect_tools(loop(model, ROME), "Rome"),
    parallel=lambda: expect_tools(loop(model, BOTH), "Rome", "Oslo"),
    streamed_tools=lambda: expect_tools(loop(model, ROME, streamed=True), "Rome"),
    responses=lambda: expect_tools(loop(responses_model, BOTH), "Rome", "Oslo"),
    form=form,
)
