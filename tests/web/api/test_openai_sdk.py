"""The `openai` SDK as a client: completions and responses, streamed and whole, with tools and without."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from holdfast.core.errors import KeyRejected
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import Call, Delay
from holdfast.testing.scripted_model import Reasoning, Tokens
from holdfast.tools.contract import ApprovalRequest, ToolContext
from tests.agent.agent_fixtures import a_tool, echo, until
from tests.web.api.api_server import TOKEN, Served, served

Wait = Callable[[Awaitable[Any]], Any]
HI: Any = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def client(server: Served) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key=TOKEN, max_retries=0, timeout=20) as sdk:
        yield sdk


def test_a_chat_completion_is_answered_whole_with_its_usage(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["hello there", Tokens(9, 2)]]) as server, client(server) as sdk:
            answer = await sdk.chat.completions.create(model="gpt-4o", messages=HI, temperature=0.2)
            assert answer.choices[0].message.content == "hello there"
            assert answer.choices[0].finish_reason == "stop"
            assert answer.usage is not None
            assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (9, 2)
            assert answer.model == "holdfast"

    wait(scenario())


def test_the_program_of_the_page_about_the_api_is_answered(db: SessionDB, wait: Wait) -> None:
    page = (Path(__file__).parents[3] / "docs" / "http-api.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)

    async def scenario() -> None:
        async with served(db, ["hello there"]) as server:
            names: dict[str, Any] = {"TOKEN": TOKEN}
            await asyncio.to_thread(exec, program.replace("http://127.0.0.1:8484", server.url), names)
            assert names["answer"].choices[0].message.content == "hello there"
            await asyncio.to_thread(names["client"].close)

    wait(scenario())


def test_a_chat_completion_is_streamed_as_it_is_written(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = [[Reasoning("well"), "one ", Delay(0.1), "two", Tokens(5, 3)]]
        async with served(db, script) as server, client(server) as sdk:
            stream = await sdk.chat.completions.create(
                model="holdfast", messages=HI, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            texts = [each.choices[0].delta.content for each in chunks if each.choices]
            assert "".join(text or "" for text in texts) == "one two"
            assert sum(bool(text) for text in texts) >= 2
            thought = [
                getattr(each.choices[0].delta, "reasoning_content", "") for each in chunks if each.choices
            ]
            assert "".join(text or "" for text in thought) == "well"
            assert chunks[-2].choices[0].finish_reason == "stop"
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.total_tokens == 8

    wait(scenario())


def test_the_agents_own_tools_run_behind_an_answer(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = [["I look. ", Call("echo", {"a": 1}), Tokens(3, 1)], ["It is done.", Tokens(7, 2)]] * 2
        async with served(db, script, tools=[echo()]) as server, client(server) as sdk:
            answer = await sdk.chat.completions.create(model="x", messages=HI)
            assert answer.choices[0].message.content == "I look. \n\nIt is done."
            assert answer.choices[0].message.tool_calls is None
            assert answer.usage is not None
            assert answer.usage.prompt_tokens == 10
            stream = await sdk.chat.completions.create(model="x", messages=HI, stream=True)
            texts = [each.choices[0].delta.content or "" async for each in stream]
            assert "".join(texts) == "I look. \n\nIt is done."

    wait(scenario())


def test_without_a_session_what_was_said_before_is_the_history_of_a_fresh_one(
    db: SessionDB, wait: Wait
) -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> str:
        seen.append(request)
        return "second answer"

    async def scenario() -> None:
        async with served(db, [answer]) as server, client(server) as sdk:
            messages: Any = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "first"},
                {"role": "assistant", "content": "first answer"},
                {"role": "user", "content": [{"type": "text", "text": "second"}]},
            ]
            raw = await sdk.chat.completions.with_raw_response.create(model="x", messages=messages)
            session = raw.headers["x-holdfast-session"]
            stored = [(each["role"], each["content"]) for each in db.get_messages(session)]
            assert stored[:2] == [("user", "first"), ("assistant", "first answer")]
            assert stored[-1] == ("assistant", "second answer")
            told = str(seen[0].messages)
            assert all(word in told for word in ("first answer", "second"))

    wait(scenario())


@pytest.mark.parametrize("stream", [False, True])
def test_a_session_may_have_a_name_in_any_script(db: SessionDB, wait: Wait, stream: bool) -> None:
    name = "bureau d'été \U0002a451 100%"

    async def scenario() -> None:
        async with served(db, ["one", "two"]) as server:
            body = {"model": "x", "messages": HI, "conversation": name, "stream": stream}
            answer = await server.http.post("/v1/chat/completions", json=body)
            named = answer.headers["X-Holdfast-Session"]
            again = {"model": "x", "messages": HI, "stream": stream}
            await server.http.post("/v1/chat/completions", json=again, headers={"X-Holdfast-Session": named})
            assert [each["content"] for each in db.get_messages(name)] == ["hi", "one", "hi", "two"]

    wait(scenario())


@pytest.mark.parametrize("by", ["header", "conversation"])
def test_in_a_named_session_only_the_last_message_is_new(db: SessionDB, wait: Wait, by: str) -> None:
    async def scenario() -> None:
        async with served(db, ["one", "two"]) as server, client(server) as sdk:
            given: Any = {
                "header": {"user": "somebody", "extra_headers": {"X-Holdfast-Session": "desk"}},
                "conversation": {"user": "somebody", "extra_body": {"conversation": "desk"}},
            }[by]
            await sdk.chat.completions.create(model="x", messages=HI, **given)
            longer: Any = [
                *HI,
                {"role": "assistant", "content": "one"},
                {"role": "user", "content": "and now?"},
            ]
            await sdk.chat.completions.create(model="x", messages=longer, **given)
            said = [each["content"] for each in db.get_messages("desk")]
            assert said == ["hi", "one", "and now?", "two"]

    wait(scenario())


def test_what_needs_approval_is_refused_because_nobody_can_be_asked(db: SessionDB, wait: Wait) -> None:
    asked: list[Any] = []

    async def run(context: ToolContext, _: dict[str, Any]) -> str:
        asked.append(await context.person.approve(ApprovalRequest("rm -rf /", "command")))
        asked.append(await context.person.answer("really?"))
        return str(asked)

    async def scenario() -> None:
        async with served(db, [Call("risky"), "as you say"], tools=[a_tool("risky", run)]) as server:
            async with client(server) as sdk:
                answer = await sdk.chat.completions.create(model="x", messages=HI)
            assert answer.choices[0].message.content == "as you say"
            assert asked == [False, "Nobody is there to answer."]

    wait(scenario())


def test_a_response_is_answered_whole_and_goes_on_from_the_one_before(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["one", Tokens(4, 1)], "two", "three"]) as server, client(server) as sdk:
            first = await sdk.responses.create(model="x", input="hi", instructions="Be brief.")
            assert first.output_text == "one"
            assert first.usage is not None
            assert first.usage.total_tokens == 5
            items: Any = [{"role": "user", "content": [{"type": "input_text", "text": "again"}]}]
            second = await sdk.responses.create(model="x", input=items, previous_response_id=first.id)
            assert second.output_text == "two"
            assert second.conversation is not None
            session = second.conversation.id
            third = await sdk.responses.create(model="x", input="more", conversation=session)
            assert third.output_text == "three"
            said = [each["content"] for each in db.get_messages(session)]
            assert said == ["hi", "one", "again", "two", "more", "three"]
            assert (first.previous_response_id, second.previous_response_id) == (None, first.id)

    wait(scenario())


def test_a_response_is_streamed_with_the_events_that_the_sdk_folds(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["one ", Delay(0.1), "two"]]) as server, client(server) as sdk:
            async with sdk.responses.stream(model="x", input="hi") as stream:
                kinds = [event.type async for event in stream]
                final = await stream.get_final_response()
            assert final.output_text == "one two"
            assert kinds[0] == "response.created"
            assert kinds.count("response.output_text.delta") >= 2
            assert kinds[-1] == "response.completed"

    wait(scenario())


def test_errors_have_the_shape_that_the_sdk_knows(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = [KeyRejected("scripted", "no"), ["half ", KeyRejected("scripted", "no")]]
        async with served(db, script) as server, client(server) as sdk:
            with pytest.raises(openai.AuthenticationError, match="rejected"):
                await sdk.chat.completions.create(model="x", messages=HI)
            with pytest.raises(openai.APIError, match="rejected"):
                async for _ in await sdk.chat.completions.create(model="x", messages=HI, stream=True):
                    pass
            stranger = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="wrong", max_retries=0)
            with pytest.raises(openai.AuthenticationError):
                await stranger.models.list()
            await stranger.close()
            with pytest.raises(openai.BadRequestError, match="last message must be the user's"):
                await sdk.chat.completions.create(
                    model="x", messages=[{"role": "assistant", "content": "me"}]
                )
            with pytest.raises(openai.BadRequestError) as empty:
                await sdk.chat.completions.create(model="x", messages=[])
            assert (empty.value.type, "messages" in empty.value.message) == ("invalid_request_error", True)
            with pytest.raises(openai.BadRequestError):
                await sdk.responses.create(model="x", input="")

    wait(scenario())


def test_a_client_that_goes_away_stops_its_turn_and_what_came_is_kept(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db, [["half an answer ", Delay(60)]] * 2) as server, client(server) as sdk:
            named = [{"X-Holdfast-Session": name} for name in ("desk", "other")]
            stream = await sdk.chat.completions.create(
                model="x", messages=HI, stream=True, extra_headers=named[0]
            )
            async for chunk in stream:
                if chunk.choices[0].delta.content:
                    break
            await stream.close()
            await until(lambda: "cut off" in str(db.get_messages("desk")))
            assert "half an answer" in str(db.get_messages("desk"))
            whole = asyncio.create_task(
                sdk.chat.completions.create(model="x", messages=HI, extra_headers=named[1])
            )
            await until(lambda: db.get_session("other") is not None and bool(db.get_messages("other")))
            whole.cancel()
            await until(lambda: "cut off" in str(db.get_messages("other")))

    wait(scenario())


def test_the_models_are_listed(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with served(db) as server, client(server) as sdk:
            assert "holdfast" in [each.id async for each in sdk.models.list()]
            assert (await sdk.models.retrieve("holdfast")).id == "holdfast"
            with pytest.raises(openai.NotFoundError):
                await sdk.models.retrieve("none")

    wait(scenario())
