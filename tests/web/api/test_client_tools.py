"""Clients of `/v1` with tools of their own, formats for the answer, and wishes for the model."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import openai
import pytest
from openai.types.chat import ChatCompletionMessage

from holdfast.core.clock import SystemClock
from holdfast.core.errors import KeyRejected
from holdfast.host.retention import Retention
from holdfast.memory import MemoryManager
from holdfast.models.contract import ModelRequest, ModelTraits
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.providers.local import LocalMemory
from holdfast.sessions import SessionDB
from holdfast.testing import Call
from holdfast.testing.providers import RecordingProvider
from holdfast.testing.scripted_server import ScriptedServer
from tests.agent.agent_fixtures import echo, until
from tests.web.api.api_server import BEARER, TOKEN, Served, served
from tests.web.api.test_command import command
from tests.web.api.test_openai_sdk import client

Wait = Callable[[Awaitable[Any]], Any]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
FLAT: Any = {"type": "function", **WEATHER["function"]}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "report", "schema": SCHEMA}}
ASKED: Any = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Rome or Oslo?"}]
BOTH = [Call("weather", {"city": "Rome"}, id="a"), Call("weather", {"city": "Oslo"}, id="a")]


class Seen:
    """The requests that the model got."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def then(self, answer: object) -> Callable[[ModelRequest], object]:
        def play(request: ModelRequest) -> object:
            # A copy, because the agent goes on to change the same list.
            self.requests.append(replace(request, messages=tuple(request.messages)))
            return answer

        return play

    @property
    def last(self) -> ModelRequest:
        return self.requests[-1]


def results_of(message: ChatCompletionMessage) -> list[Any]:
    """What a client sends after it ran the calls of an answer."""
    calls: list[Any] = list(message.tool_calls or ())
    said = [
        {"role": "tool", "tool_call_id": call.id, "content": f"21 with {call.function.arguments}"}
        for call in calls
    ]
    return [message.model_dump(exclude_none=True), *said]


def test_calls_of_the_clients_tools_are_handed_over_and_their_results_taken_also_by_another_server(
    store_url: str, wait: Wait
) -> None:
    seen = Seen()

    async def scenario() -> None:
        async with (
            served(SessionDB.open(store_url), [seen.then(BOTH)], tools=[echo()]) as server,
            client(server) as sdk,
        ):
            asked = await sdk.chat.completions.with_raw_response.create(
                model="x",
                messages=ASKED,
                tools=[WEATHER],
                tool_choice="required",
                temperature=0.5,
                max_tokens=99,
            )
            session = asked.headers["x-holdfast-session"]
            choice = asked.parse().choices[0]
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        assert [tool.name for tool in seen.last.tools] == ["weather"]
        assert seen.last.max_output_tokens == 99
        assert seen.last.options == {"temperature": 0.5, "tool_choice": "required"}
        history = [*ASKED, *results_of(choice.message)]
        # The server of the first request is gone: nothing but the store knows of the calls.
        async with (
            served(SessionDB.open(store_url), [seen.then("Both are warm.")], tools=[echo()]) as server,
            client(server) as sdk,
        ):
            answer = await sdk.chat.completions.with_raw_response.create(
                model="x", messages=history, tools=[WEATHER]
            )
            assert answer.headers["x-holdfast-session"] == session
            assert answer.parse().choices[0].message.content == "Both are warm."
            told = [(each["role"], str(each.get("content"))) for each in seen.last.messages]
            assert [role for role, _ in told] == ["user", "assistant", "tool", "tool"]
            assert ["Rome" in told[2][1], "Oslo" in told[3][1]] == [True, True]
            assert "Be brief." in seen.last.system
            assert len(await _listed(server, api=True)) == 1
            # The same results again: those calls wait no more, so the conversation that was sent counts.
            again = await sdk.chat.completions.with_raw_response.create(
                model="x", messages=history, tools=[WEATHER]
            )
            assert again.headers["x-holdfast-session"] != session

    wait(scenario())


@pytest.mark.clause("I8")
@pytest.mark.parametrize("by", ["chat", "responses"])
def test_what_no_model_takes_is_refused_beside_results_too_and_they_can_be_sent_again(
    db: SessionDB, wait: Wait, by: str
) -> None:
    seen = Seen()
    beside: list[Any] = [
        [{"type": "zzz"}],
        [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}],
        [{"type": "file", "file": {"filename": "a.pdf", "file_data": "?"}}],
    ]

    async def scenario() -> None:
        script = [seen.then(BOTH), seen.then("Both are warm.")]
        async with served(db, script) as server, client(server) as sdk:
            first = await sdk.chat.completions.create(model="x", messages=ASKED, tools=[WEATHER])
            results = results_of(first.choices[0].message)

            async def bring(more: list[Any], content: str = "") -> Any:  # noqa: ANN401 - an answer
                sent: list[Any] = [
                    {**each, "content": content} if content and "tool_call_id" in each else each
                    for each in results
                ]
                if by == "chat":
                    return await sdk.chat.completions.create(
                        model="x", messages=[*ASKED, *sent, *more], tools=[WEATHER]
                    )
                outputs: Any = [
                    {
                        "type": "function_call_output",
                        "call_id": each["tool_call_id"],
                        "output": each["content"],
                    }
                    for each in sent[1:]
                ]
                return await sdk.responses.create(model="x", input=[*outputs, *more], tools=[FLAT])

            for content in beside:
                with pytest.raises(openai.BadRequestError) as refused:
                    await bring([{"role": "user", "content": content}])
                assert refused.value.code == "invalid_value"
            server.host.model = ModelTraits("small", 10_000)
            with pytest.raises(openai.BadRequestError) as refused:
                await bring([], "word " * 40_000)
            assert refused.value.code == "context_length_exceeded"
            file = {"filename": "note.txt", "file_data": base64.b64encode(b"a note").decode()}
            await bring([{"role": "user", "content": [{"type": "file", "file": file}]}])
        assert "a note" in str(seen.last.messages[-1]["content"])
        assert len(seen.requests) == 2

    wait(scenario())


@pytest.mark.slow
def test_a_server_that_is_killed_between_a_call_and_its_result_goes_on(tmp_path: Path) -> None:
    def asked(script: list[Any], messages: list[Any]) -> Any:  # noqa: ANN401 - JSON
        file = tmp_path / "calls.json"
        file.write_text(json.dumps(script), encoding="utf-8")
        with command(tmp_path, HOLDFAST_MODEL_NAME=str(file), HOLDFAST_WEB_TOKEN=TOKEN) as process:
            assert process.stdout is not None
            base = process.stdout.readline().strip().partition("?")[0]
            body = {"model": "x", "messages": messages, "tools": [WEATHER]}
            answer = httpx2.post(f"{base}v1/chat/completions", json=body, headers=BEARER, timeout=60)
            process.kill()  # kill -9: nothing is said at the end
            process.wait(20)
        return answer.json()["choices"][0]

    first = asked([{"tool": "weather", "arguments": {"city": "Rome"}}], ASKED)
    assert first["finish_reason"] == "tool_calls"
    result = {"role": "tool", "tool_call_id": first["message"]["tool_calls"][0]["id"], "content": "21"}
    assert asked(["It is warm."], [*ASKED, first["message"], result])["message"]["content"] == "It is warm."
    with SessionDB(tmp_path / "holdfast" / "holdfast.db") as db:
        kept = [db.get_messages(each.session.id) for each in db.conversations.list(api=True)]
    roles = [[message["role"] for message in each] for each in kept]
    assert roles == [["user", "assistant", "user", "assistant"]]


def test_a_streamed_call_beside_an_own_one_and_a_result_that_never_comes(db: SessionDB, wait: Wait) -> None:
    seen = Seen()
    script = [["I look. ", Call("echo", {"a": 1}), BOTH[0]], seen.then("Never mind.")]

    async def scenario() -> None:
        async with served(db, script, tools=[echo()]) as server, client(server) as sdk:
            headers = {"X-Holdfast-Session": "desk", "X-Holdfast-Tools": "on"}
            parts: Any = {"name": "", "arguments": "", "id": ""}
            text, ends = "", []
            stream = await sdk.chat.completions.create(
                model="x", messages=ASKED, tools=[WEATHER], stream=True, extra_headers=headers
            )
            async for chunk in stream:
                delta = chunk.choices[0].delta
                text += delta.content or ""
                ends.append(chunk.choices[0].finish_reason)
                for call in delta.tool_calls or ():
                    assert call.function is not None
                    parts["id"] += call.id or ""
                    parts["name"] += call.function.name or ""
                    parts["arguments"] += call.function.arguments or ""
            assert (text, ends[-1]) == ("I look. ", "tool_calls")
            assert (parts["name"], json.loads(parts["arguments"])) == ("weather", {"city": "Rome"})
            # A person goes on on the page; the model is told that the client gave no result.
            await server.send("desk", "leave it")
            await server.until("desk", "TurnCompleted", after=0)
            await until(lambda: bool(seen.requests))
            roles = [each["role"] for each in seen.last.messages]
            assert roles == ["user", "assistant", "tool", "assistant", "tool", "user"]
            assert "without giving one" in str(seen.last.messages[4].get("content"))

    wait(scenario())


def test_responses_with_tools_go_on_by_their_id_or_by_the_input_and_can_be_read_again(
    db: SessionDB, wait: Wait
) -> None:
    seen = Seen()
    script = [BOTH, seen.then("Warm."), BOTH[:1], seen.then("Quite warm.")]

    async def scenario() -> None:
        async with served(db, script) as server, client(server) as sdk:
            first = await sdk.responses.create(model="x", input="Rome or Oslo?", tools=[FLAT])
            calls = [item for item in first.output if item.type == "function_call"]
            assert [json.loads(call.arguments)["city"] for call in calls] == ["Rome", "Oslo"]
            outputs: Any = [
                {"type": "function_call_output", "call_id": call.call_id, "output": "21"} for call in calls
            ]
            second = await sdk.responses.create(
                model="x", input=outputs, tools=[FLAT], previous_response_id=first.id
            )
            assert second.output_text == "Warm."
            assert [each["role"] for each in seen.last.messages] == ["user", "assistant", "tool", "tool"]
            read = await sdk.responses.retrieve(second.id)
            assert (read.output_text, read.status) == ("Warm.", "completed")
            assert [item.type for item in (await sdk.responses.retrieve(first.id)).output] == [
                "function_call"
            ] * 2
            # Without storing, the client sends everything again.
            stream = await sdk.responses.create(
                model="x", input="Rome?", tools=[FLAT], store=False, stream=True
            )
            events = [event async for event in stream]
            kinds = [event.type for event in events]
            assert "response.function_call_arguments.done" in kinds
            assert "response.output_text.delta" not in kinds
            handed = events[-1].response.output[0]  # type: ignore[union-attr]
            again: Any = [
                {"role": "user", "content": "Rome?"},
                handed.model_dump(),
                {"type": "function_call_output", "call_id": handed.call_id, "output": "21"},  # type: ignore[union-attr]
            ]
            last = await sdk.responses.create(model="x", input=again, tools=[FLAT], store=False)
            assert last.output_text == "Quite warm."
            # What is not to be stored is deleted once it is answered.
            await until(lambda: len(db.conversations.list(api=True)) == 1)
            with pytest.raises(openai.NotFoundError, match="store: false"):
                await sdk.responses.retrieve(last.id)

    wait(scenario())


def test_an_answer_in_a_form_is_checked_and_asked_for_again(db: SessionDB, wait: Wait) -> None:
    good = '{"city": "Rome", "degrees": 21}'
    script = ["Rome, 21", '{"city": "Rome"}', good, [Call("final_result", good)], *["no"] * 3]

    async def scenario() -> None:
        async with served(db, script, tools=[echo()]) as server, client(server) as sdk:
            stream = await sdk.chat.completions.create(
                model="x", messages=ASKED, response_format=FORMAT, stream=True
            )
            texts = [each.choices[0].delta.content or "" async for each in stream]
            assert json.loads("".join(texts)) == {"city": "Rome", "degrees": 21}
            text: Any = {"format": {"type": "json_schema", "name": "report", "schema": SCHEMA}}
            answer = await sdk.responses.create(model="x", input="Rome?", text=text)
            assert json.loads(answer.output_text)["degrees"] == 21
            with pytest.raises(openai.APIStatusError, match="JSON"):
                await sdk.chat.completions.create(
                    model="x", messages=ASKED, response_format={"type": "json_object"}
                )

    wait(scenario())


@pytest.mark.parametrize("takes_formats", [True, False])
def test_a_form_is_passed_on_to_a_model_whose_server_takes_it(
    in_memory: SessionDB, wait: Wait, takes_formats: bool
) -> None:
    good = '{"city": "Rome", "degrees": 21}'
    script = [good if takes_formats else Call("final_result", good)] * 2
    traits = ModelTraits("m", 100_000, takes_formats=takes_formats)

    async def scenario() -> None:
        async with ScriptedServer(script) as asked:
            model = OpenAICompatible(Server(asked.base_url), traits)
            async with served(in_memory, lambda _: model) as server, client(server) as sdk:
                answer = await sdk.chat.completions.create(model="x", messages=ASKED, response_format=FORMAT)
                text: Any = {"format": {"type": "json_schema", "name": "report", "schema": SCHEMA}}
                response = await sdk.responses.create(model="x", input="Rome?", text=text)
            await model.close()
            assert [
                json.loads(each or "") for each in (answer.choices[0].message.content, response.output_text)
            ] == [json.loads(good)] * 2
            for each in asked.requests:
                body = each.json()
                tools = [tool["function"]["name"] for tool in body.get("tools", ())]
                if takes_formats:
                    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
                    assert "final_result" not in tools
                else:
                    assert "response_format" not in body
                    assert "final_result" in tools

    wait(scenario())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"tools": [WEATHER, WEATHER]}, "same name"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "name"),
        ({"tool_choice": "required"}, "no tool to choose"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}}, "no tool"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 7}}}}, "schema"),
        ({"response_format": {"type": "grammar"}}, "grammar"),
        ({"temperature": 9}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"functions": [{"name": "f"}]}, "tools"),
        ({"n": 2}, "one answer"),
        ({"messages": [{"role": "tool", "content": "21"}]}, "names no call"),
    ],
)
def test_what_can_not_be_done_is_refused_and_nothing_is_stored(
    in_memory: SessionDB, wait: Wait, wrong: dict[str, Any], said: str
) -> None:
    async def scenario() -> None:
        async with served(in_memory, ["never"]) as server:
            body = {"model": "x", "messages": ASKED, **wrong}
            answer = await server.http.post("/v1/chat/completions", json=body)
            assert answer.status_code in (400, 422), answer.text
            assert said in answer.json()["error"]["message"]
            assert await _listed(server, api=True) == []

    wait(scenario())


def test_requests_without_a_session_are_listed_apart_not_remembered_and_deleted_when_unused(
    db: SessionDB, wait: Wait
) -> None:
    provider = RecordingProvider("notes")
    provider.answers = {"Rome or Oslo?": "they like tea"}
    memory = MemoryManager(store=db)
    memory.add_provider(provider)
    seen = Seen()

    async def scenario() -> None:
        script = [seen.then("one"), seen.then("two"), seen.then("three")]
        async with served(db, script, memory=memory) as server, client(server) as sdk:
            await sdk.chat.completions.create(model="x", messages=ASKED)
            assert "tea" not in str(seen.last)
            for headers in ({"X-Holdfast-Memory": "on"}, {"X-Holdfast-Session": "desk"}):
                await sdk.chat.completions.create(model="x", messages=ASKED, extra_headers=headers)
                assert "tea" in str(seen.last)
            assert [each["id"] for each in await _listed(server)] == ["desk"]
            apart = await _listed(server, api=True)
            assert len(apart) == 2
            for api, found in (("false", {"desk"}), ("true", {each["id"] for each in apart})):
                searched = await server.http.get("/api/search", params={"q": "Oslo", "api": api})
                assert {each["root_id"] for each in searched.json()["items"]} == found
            inside = await server.http.get("/api/search", params={"q": "Oslo", "session": apart[0]["id"]})
            assert inside.json()["items"] != []
            kept = apart[0]["id"]
            await server.http.patch(f"/api/sessions/{kept}", json={"pinned": True})
            await asyncio.to_thread(memory.flush_pending, 10)
            assert [turn.assistant_content for turn in provider.turns] == ["two", "three"]
            retention = Retention(server.host._call, db, server.host.delete, 0.0)  # noqa: SLF001 - no days pass here
            assert await retention.run_once() == 1
            assert [each["id"] for each in await _listed(server, api=True)] == [kept]
            assert [each["id"] for each in await _listed(server)] == ["desk"]

    wait(scenario())


def test_metrics_count_tools_and_errors_of_the_model_and_a_body_that_is_too_large(
    in_memory: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        script = [[Call("echo", {"a": 1})], "done", KeyRejected("scripted", "no")]
        async with served(in_memory, script, tools=[echo()]) as server:
            for _ in range(2):
                await server.http.post("/v1/chat/completions", json={"model": "x", "messages": ASKED})
            large = await server.http.post("/v1/responses", content=b" " * 20_000_001)
            assert large.status_code == 413
            labels = {"method": "POST", "route": "/v1/responses", "status": "413"}
            counted = server.web.metrics.registry.get_sample_value
            await until(lambda: counted("holdfast_requests_total", labels) == 1.0)
            told = (await server.http.get("/metrics")).text
            assert 'holdfast_tool_calls_total{end="ok",tool="echo"} 1.0' in told
            assert 'holdfast_model_errors_total{end="turn_failed"} 1.0' in told
            assert "holdfast_build_info{" in told

    wait(scenario())


def test_embeddings_are_those_of_the_memory_in_both_encodings_and_refused_without_a_model(
    in_memory: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    class TwoNumbers:
        model = "two"

        def embed(self, texts: Sequence[str]) -> Any:  # noqa: ANN401 - a numpy matrix
            return np.array([[len(text), 1.0] for text in texts], dtype=np.float32)

    async def scenario() -> None:
        memory = MemoryManager(store=in_memory)
        memory.add_provider(LocalMemory(tmp_path / "memory.db", clock=SystemClock(), embedder=TwoNumbers()))
        async with served(in_memory, memory=memory) as server, client(server) as sdk:
            for encoding in ("float", "base64", openai.omit):
                kind: Any = encoding
                made = await sdk.embeddings.create(model="x", input=["ab", "abcd"], encoding_format=kind)
                if encoding != "base64":
                    assert [each.embedding for each in made.data] == [[2.0, 1.0], [4.0, 1.0]]
            bad: list[dict[str, Any]] = [{"input": []}, {"input": [[1, 2]]}, {"input": "a", "dimensions": 3}]
            for wrong in bad:
                refused = await server.http.post("/v1/embeddings", json={"model": "x", **wrong})
                assert refused.status_code in (400, 422), refused.text
        async with served(SessionDB(":memory:")) as bare:
            none = await bare.http.post("/v1/embeddings", json={"model": "x", "input": "a"})
            assert none.status_code == 400
            assert "embedding model" in none.json()["error"]["message"]

    wait(scenario())


async def _listed(server: Served, *, api: bool = False) -> list[Any]:
    answer = await server.http.get("/api/sessions", params={"api": str(api).lower()})
    items: list[Any] = answer.json()["items"]
    return items
