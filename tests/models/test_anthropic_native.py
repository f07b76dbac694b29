"""The adapter for Anthropic's API, driven through the real SDK against a fake server on loopback."""

import asyncio
import json
import subprocess
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from holdfast.core.contract import Message
from holdfast.core.errors import (
    AnswerEmpty,
    ContentRejected,
    ContextTooLong,
    KeyForbidden,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelMissing,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    StreamBroken,
)
from holdfast.core.secret import Secret
from holdfast.models.anthropic_native import AnthropicNative
from holdfast.models.contract import (
    Finished,
    ModelPiece,
    ModelRequest,
    ModelTraits,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
    Usage,
)
from holdfast.models.server import Server
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from tests.models.model_fixtures import (
    HELLO,
    KEY,
    READ,
    REQUEST,
    calls_of,
    collect,
    no_collector_closes,
    run,
    text_of,
)

T = TypeVar("T")
TRAITS = ModelTraits(name="claude-x", context_window=200_000)
Event = dict[str, Any]
HANG: Event = {"type": "hang"}
CUT: Event = {"type": "cut"}


def begin(**usage: int) -> Event:
    counted = {"input_tokens": 10, "output_tokens": 1, **usage}
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": counted}}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[Event]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(index: int, *pieces: str) -> list[Event]:
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    return block(index, {"type": "text", "text": ""}, *deltas)


def thought(index: int, words: str, signature: str) -> list[Event]:
    return block(
        index,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": words},
        {"type": "signature_delta", "signature": signature},
    )


def tool(index: int, call_id: str, *pieces: str, name: str = "read") -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block(index, {"type": "tool_use", "id": call_id, "name": name, "input": {}}, *deltas)


def end(reason: str = "end_turn", tokens: int = 5, **details: object) -> list[Event]:
    delta = {"stop_reason": reason, "stop_sequence": None, **details}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": tokens}},
        {"type": "message_stop"},
    ]


def with_server(
    answers: list[Event] | tuple[int, object, dict[str, str]] | Callable[[], list[Event]],
    ask: Callable[[AnthropicNative, LoopbackServer], Awaitable[T]],
    **options: Any,  # noqa: ANN401 - those of the adapter
) -> T:
    """Start a server that answers so, and ask the adapter through the real SDK."""

    async def handle(_: HttpRequest, answer: HttpAnswer) -> None:
        if isinstance(answers, tuple):
            await answer.reply(*answers)
            return
        events = answers() if callable(answers) else answers
        await answer.start({"content-type": "text/event-stream"})
        for event in events:
            if event is HANG:
                await asyncio.Event().wait()
            if event is CUT:
                answer.cut()
                return
            await answer.send(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await answer.end()

    async def asked() -> T:
        async with LoopbackServer(handle) as server:
            model = AnthropicNative(Server(f"{server.url}/v1", Secret(KEY)), TRAITS, **options)
            try:
                return await ask(model, server)
            finally:
                await model.close()

    return run(asked())


def answer(*events: Event, request: ModelRequest = REQUEST) -> list[ModelPiece]:
    async def ask(model: AnthropicNative, _: LoopbackServer) -> list[ModelPiece]:
        return await collect(model, request)

    return with_server(list(events), ask)


def sent_for(request: ModelRequest, **options: Any) -> HttpRequest:  # noqa: ANN401
    async def ask(model: AnthropicNative, server: LoopbackServer) -> HttpRequest:
        await collect(model, request)
        return server.requests[-1]

    return with_server([begin(), *text(0, "x"), *end()], ask, **options)


def test_text_comes_piece_by_piece_and_the_usage_counts_what_was_cached() -> None:
    start = begin(cache_read_input_tokens=70, cache_creation_input_tokens=20)
    pieces = answer(start, *text(0, "one ", "two"), *end(tokens=5))
    assert pieces == [
        TextPiece("one "),
        TextPiece("two"),
        Finished("stop", Usage(input=100, output=5, cached=70)),
    ]
    assert [each.model for each in pieces if isinstance(each, Finished)] == ["claude-x"]


def test_parallel_calls_come_whole_though_their_arguments_come_in_pieces() -> None:
    pieces = answer(
        begin(),
        *text(0, "I look."),
        *tool(1, "a", '{"pa', 'th": "x"}'),
        *tool(2, "b"),
        *end("tool_use"),
    )
    assert calls_of(pieces) == {0: ("a", "read", '{"path": "x"}'), 1: ("b", "read", "{}")}
    assert isinstance(pieces[-1], Finished)
    assert pieces[-1].stop_reason == "tool_calls"


def test_a_thought_is_shown_kept_with_its_signature_and_sent_back_where_it_stood() -> None:
    redacted = block(2, {"type": "redacted_thinking", "data": "xx"})
    pieces = answer(
        begin(),
        *thought(0, "hm", "signed"),
        *text(1, "I ", "look."),
        *redacted,
        *tool(3, "a", "{}"),
        *end("tool_use"),
    )
    finished = pieces[-1]
    assert isinstance(finished, Finished)
    assert finished.keep is not None
    assert [piece.text for piece in pieces if isinstance(piece, ReasoningPiece)] == ["hm"]
    said: Any = {
        "role": "assistant",
        "content": text_of(pieces),
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls_of(pieces).values()
        ],
        "holdfast": {"keep": json.loads(json.dumps(finished.keep))},
    }
    result: Message = {"role": "tool", "tool_call_id": "a", "content": "ok"}
    body = sent_for(ModelRequest("", [HELLO, said, result])).json()
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "signed"},
        {"type": "text", "text": "I look."},
        {"type": "redacted_thinking", "data": "xx"},
        {"type": "tool_use", "id": "a", "name": "read", "input": {}},
    ]


def test_an_answer_without_thoughts_keeps_nothing() -> None:
    finished = answer(begin(), *text(0, "x"), *end())[-1]
    assert isinstance(finished, Finished)
    assert finished.keep is None


def test_a_request_says_how_much_to_write_and_whether_to_think() -> None:
    sent = sent_for(ModelRequest("Be brief.", [HELLO], [READ], max_output_tokens=99))
    body = sent.json()
    assert sent.path == "/v1/messages"
    assert KEY in str(sent.headers)
    assert (body["model"], body["max_tokens"], body["stream"]) == ("claude-x", 99, True)
    assert body["tools"][0]["input_schema"] == READ.parameters
    assert "thinking" not in body
    thinking = {"type": "enabled", "budget_tokens": 2048}
    body = sent_for(REQUEST, thinking=thinking).json()
    assert (body["thinking"], body["max_tokens"]) == (thinking, 32_000)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refused"),
        ("something_new", "stop"),
    ],
)
def test_a_stop_reason_is_understood(said: str, meant: str) -> None:
    finished = answer(begin(), *text(0, "x"), *end(said))[-1]
    assert isinstance(finished, Finished)
    assert finished.stop_reason == meant


def test_a_refusal_is_explained() -> None:
    details = {"type": "refusal", "category": None, "explanation": "I may not."}
    pieces = answer(begin(), *end("refusal", stop_details=details))
    assert text_of(pieces) == "I may not."


def refusal(kind: str, message: str = "words") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (401, "authentication_error", f"bad {KEY}", KeyRejected),
        (403, "permission_error", "no", KeyForbidden),
        (402, "billing_error", "no", NoCredit),
        (404, "not_found_error", "model: claude-x", ModelUnknown),
        (400, "invalid_request_error", "prompt is too long: 9 > 8", ContextTooLong),
        (413, "request_too_large", "too large", ContextTooLong),
        (400, "invalid_request_error", "tools.0: bad", ContentRejected),
        (429, "rate_limit_error", "slow", ModelBusy),
        (529, "overloaded_error", "busy", ModelBusy),
        (500, "api_error", "oops", ModelUnreachable),
    ],
)
def test_a_refusal_has_its_name(status: int, kind: str, message: str, expected: type[ModelFailure]) -> None:
    async def ask(model: AnthropicNative, server: LoopbackServer) -> None:
        with pytest.raises(expected) as raised:
            await collect(model)
        assert type(raised.value) is expected
        assert KEY not in "".join(traceback.format_exception(raised.value))
        assert len(server.requests) == 1

    with_server((status, refusal(kind, message), {"retry-after": "2"}), ask)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([begin(), *text(0, "half"), CUT], StreamBroken),
        ([begin(), *text(0, "half")], StreamBroken),
        ([begin(), *text(0, "half"), {**refusal("api_error"), "type": "error"}], StreamBroken),
        ([{**refusal("overloaded_error"), "type": "error"}], ModelBusy),
        ([begin(), *end()], AnswerEmpty),
    ],
    ids=["cut", "ended early", "error", "overload", "empty"],
)
def test_a_stream_that_goes_wrong_has_a_name(events: list[Event], expected: type[ModelFailure]) -> None:
    with pytest.raises(expected) as raised:
        answer(*events)
    assert type(raised.value) is expected


def test_an_answer_that_is_complete_stands_though_the_connection_breaks_after_it() -> None:
    assert text_of(answer(begin(), *text(0, "whole"), end()[0], CUT)) == "whole"


@pytest.mark.clause("I6")
def test_closing_or_cancelling_ends_the_request_on_the_wire() -> None:
    async def ask(model: AnthropicNative, server: LoopbackServer) -> None:
        with no_collector_closes():
            pieces = model.stream(REQUEST)
            assert await anext(pieces) == TextPiece("x")
            await pieces.aclose()
            await asyncio.wait_for(server.requests[0].abandoned.wait(), 1)
        reading = asyncio.ensure_future(collect(model))
        while len(server.requests) < 2:
            await asyncio.wait({reading}, timeout=0.01)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(server.requests[1].abandoned.wait(), 1)

    with_server([begin(), *text(0, "x"), HANG], ask)


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask() -> None:
        await collect(AnthropicNative(Server("https://host", Secret(KEY)), TRAITS))

    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ModelMissing, match=r"pip install 'holdfast-agent\[anthropic\]'"):
        run(ask())


def test_the_sdk_is_imported_only_when_it_is_used() -> None:
    script = "import sys, holdfast.models.anthropic_native; print('anthropic' in sys.modules)"
    child = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert child.stdout.split() == ["False"]


def test_pieces_of_arguments_belong_to_the_call_before_them() -> None:
    pieces = answer(begin(), *tool(0, "a", '{"x"', ": 1}"), *end("tool_use"))
    assert pieces[:3] == [
        ToolCallPiece(0, id="a", name="read"),
        ToolCallPiece(0, arguments='{"x"'),
        ToolCallPiece(0, arguments=": 1}"),
    ]
