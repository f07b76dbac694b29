"""The OpenAI-compatible adapter over real HTTP: what it sends, what it makes of the answer, how it stops."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput, ModelUnreachable, StreamBroken
from holdfast.core.secret import Secret
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, ReasoningPiece, TextPiece, Usage
from holdfast.models.openai_compatible import OpenAICompatible
from holdfast.models.server import Server
from holdfast.testing import Call, Delay, Reasoning, Tokens
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.scripted_server import ScriptedServer
from tests.models.model_fixtures import (
    HELLO,
    KEY,
    READ,
    REQUEST,
    TRAITS,
    answer,
    calls_of,
    collect,
    no_collector_closes,
    run,
    text_of,
    with_server,
)


def sent_for(request: ModelRequest, key: str = KEY) -> HttpRequest:
    async def ask(model: OpenAICompatible, server: ScriptedServer) -> HttpRequest:
        await collect(model, request)
        return server.requests[-1]

    return with_server(["done"], ask, key=key)


def test_text_comes_as_the_server_sends_it_and_ends_with_its_usage() -> None:
    pieces = answer([["one ", Delay(0.05), "two", Tokens(120, 3, cached=100)]])
    assert pieces == [
        TextPiece("one "),
        TextPiece("two"),
        Finished("stop", Usage(input=120, output=3, cached=100)),
    ]
    assert [each.model for each in pieces if isinstance(each, Finished)] == ["scripted"]


def test_reasoning_comes_apart_from_the_text() -> None:
    pieces = answer([[Reasoning("let me think"), "Yes."]])
    assert "".join(piece.text for piece in pieces if isinstance(piece, ReasoningPiece)) == "let me think"
    assert text_of(pieces) == "Yes."


def test_parallel_tool_calls_come_whole_though_their_arguments_come_in_pieces() -> None:
    pieces = answer([["I look.", Call("read", {"path": "a"}, "c1"), Call("read", {"path": "b"}, "c2")]])
    assert text_of(pieces) == "I look."
    assert calls_of(pieces) == {0: ("c1", "read", '{"path": "a"}'), 1: ("c2", "read", '{"path": "b"}')}
    assert pieces[-1] == Finished("tool_calls")


def test_a_request_has_the_system_text_first_and_nothing_of_our_own() -> None:
    kept: Any = {"role": "assistant", "content": "hi", "holdfast": {"keep": {"x": 1}}}
    body = sent_for(ModelRequest("Be brief.", [HELLO, kept], [READ], max_output_tokens=50)).json()
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "hi"},
    ]
    assert body["tools"] == [
        {
            "type": "function",
            "function": {"name": "read", "description": "Reads a file.", "parameters": {**READ.parameters}},
        }
    ]
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (body["model"], body["max_tokens"]) == ("scripted", 50)


def test_pictures_of_tool_results_follow_them_as_a_message_of_the_user() -> None:
    """The API takes only text in a result."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    calls = [
        {"id": each, "type": "function", "function": {"name": "look", "arguments": "{}"}} for each in "ab"
    ]
    seen: Any = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "one"}, picture]},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]
    note = {"type": "text", "text": "[a picture from the result of the tool call a]"}
    cases: list[tuple[list[Any], dict[str, Any]]] = [
        ([], {"role": "user", "content": [note, picture]}),
        (
            [{"role": "user", "content": "go on"}],
            {"role": "user", "content": [note, picture, {"type": "text", "text": "go on"}]},
        ),
    ]
    for more, last in cases:
        sent = json.loads(sent_for(ModelRequest("", [*seen, *more])).body)["messages"]
        assert [each.get("content") for each in sent[2:4]] == ["one", "two"]
        assert sent[4:] == [last]


def test_without_a_system_text_none_is_sent() -> None:
    assert sent_for(ModelRequest("", [HELLO])).json()["messages"] == [HELLO]


def test_the_key_is_sent_and_without_one_nothing_is() -> None:
    assert sent_for(REQUEST).headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in sent_for(REQUEST, key="").headers


def test_one_adapter_asks_any_number_of_times() -> None:
    async def ask(model: OpenAICompatible, _: ScriptedServer) -> list[str]:
        return [text_of(await collect(model)) for _ in range(3)]

    assert with_server(["one", "two", "three"], ask) == ["one", "two", "three"]


@pytest.mark.clause("I6")
@pytest.mark.parametrize("script", [["first ", Delay(3600)], [Delay(3600)]], ids=["mid-stream", "before it"])
def test_cancelling_the_reading_task_ends_the_request_on_the_wire(script: list[Any]) -> None:
    async def ask(model: OpenAICompatible, server: ScriptedServer) -> None:
        got: list[ModelPiece] = []

        async def read() -> None:
            async for piece in model.stream(REQUEST):
                got.append(piece)  # noqa: PERF401 - the pieces are counted while they come

        reading = asyncio.ensure_future(read())
        while not server.requests or len(got) < len(script) - 1:
            await asyncio.wait({reading}, timeout=0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.requests[0].abandoned.wait(), 1)

    with_server([script], ask)


@pytest.mark.clause("I6")
def test_closing_the_generator_ends_the_request_on_the_wire() -> None:
    async def ask(model: OpenAICompatible, server: ScriptedServer) -> None:
        with no_collector_closes():
            pieces = model.stream(REQUEST)
            assert await anext(pieces) == TextPiece("first")
            await pieces.aclose()
            await asyncio.wait_for(server.requests[0].abandoned.wait(), 1)

    with_server([["first", Delay(3600)]], ask)


def test_a_stream_that_breaks_is_told_from_one_that_ends() -> None:
    got: list[ModelPiece] = []

    async def ask(model: OpenAICompatible, _: ScriptedServer) -> None:
        async for piece in model.stream(REQUEST):
            got.append(piece)  # noqa: PERF401 - the pieces before the break are looked at

    with pytest.raises(StreamBroken, match="scripted did not answer"):
        with_server([["half an ", StreamBroken("scripted", "cut")]], ask)
    assert text_of(got) == "half an "


def test_a_silent_server_is_given_up_after_the_stall_time() -> None:
    async def ask(model: OpenAICompatible, _: ScriptedServer) -> list[ModelPiece]:
        return await collect(model)

    with pytest.raises(ModelUnreachable, match=r"silent for 0\.05 s"):
        with_server([[Delay(3600)]], ask, stall_seconds=0.05)
    with pytest.raises(StreamBroken, match=r"silent for 0\.05 s"):
        with_server([["begun", Delay(3600)]], ask, stall_seconds=0.05)


def test_a_server_that_is_not_there_is_unreachable_and_named() -> None:
    async def ask() -> None:
        model = OpenAICompatible(Server("http://127.0.0.1:9/v1", Secret(KEY)), TRAITS)
        try:
            await collect(model)
        finally:
            await model.close()

    with pytest.raises(ModelUnreachable, match=r"http://127\.0\.0\.1:9/v1") as raised:
        run(ask())
    assert raised.value.retry_after is None


def raw_answer(*, body: bytes, kind: str = "text/event-stream", cut: bool = False) -> list[ModelPiece]:
    """What the adapter makes of these very bytes."""

    async def handle(_: HttpRequest, reply: HttpAnswer) -> None:
        await reply.start({"content-type": kind})
        await reply.send(body)
        if cut:
            reply.cut()
        else:
            await reply.end()

    async def ask() -> list[ModelPiece]:
        async with LoopbackServer(handle) as server:
            model = OpenAICompatible(Server(f"{server.url}/v1"), TRAITS)
            try:
                return await collect(model)
            finally:
                await model.close()

    return run(ask())


def event(**chunk: object) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


DONE = [{"index": 0, "delta": {}, "finish_reason": "stop"}]
WORD = [{"index": 0, "delta": {"content": "word"}}]


def test_an_answer_that_is_complete_stands_though_the_connection_breaks_after_it() -> None:
    assert raw_answer(body=event(choices=WORD) + event(choices=DONE), cut=True) == [
        TextPiece("word"),
        Finished("stop"),
    ]


def test_a_stream_that_ends_without_saying_so_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before its end"):
        raw_answer(body=event(choices=WORD))


def test_bytes_that_are_no_json_break_the_stream() -> None:
    with pytest.raises(StreamBroken):
        raw_answer(body=event(choices=WORD) + b"data: {oops\n\n")


def test_an_error_within_the_stream_is_shown_in_the_servers_words() -> None:
    with pytest.raises(StreamBroken, match="upstream fell over"):
        raw_answer(body=event(choices=WORD) + event(error={"code": 502, "message": "upstream fell over"}))


def test_a_web_page_instead_of_a_stream_points_at_the_address() -> None:
    with pytest.raises(Exception, match="check base_url"):
        raw_answer(body=b"<html>welcome</html>", kind="text/html")


def test_an_error_with_a_good_status_is_still_an_error() -> None:
    with pytest.raises(Exception, match="no such thing"):
        raw_answer(body=b'{"error": {"message": "no such thing", "code": 404}}', kind="application/json")


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://host/v1", "http://", "http://host:port/v1"])
def test_an_address_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(InvalidInput, match="http://HOST:PORT/v1"):
        Server(url)


@pytest.mark.parametrize("key", ["sk-abc\n", "sk-å"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidInput, match="key contains characters") as raised:
        Server("http://host/v1", Secret(key))
    assert "sk-" not in str(raised.value)


def test_the_http_library_is_imported_only_when_it_is_used() -> None:
    script = (
        "import sys, holdfast.models.openai_compatible;"
        "print('openai' in sys.modules, 'httpx2' in sys.modules)"
    )
    child = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert child.stdout.split() == ["False", "False"]


def test_what_a_client_asks_of_the_model_is_sent_and_replaces_nothing_of_the_request() -> None:
    asked = {"temperature": 0.2, "stop": ["END"], "tool_choice": "required", "model": "another"}
    strict = replace(READ, strict=True)
    body = sent_for(ModelRequest("", [HELLO], [strict], options=asked)).json()
    assert (body["temperature"], body["stop"], body["tool_choice"]) == (0.2, ["END"], "required")
    assert body["model"] == "scripted"
    assert body["tools"][0]["function"]["strict"] is True
