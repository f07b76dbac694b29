"""The scripted server speaks the protocol, plays its script, and misbehaves exactly where it is told to."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from holdfast.core.errors import (
    ContextTooLong,
    InvalidInput,
    KeyRejected,
    ModelBusy,
    ModelFailure,
    ModelUnknown,
    ModelUnreachable,
    NoCredit,
    RequestRejected,
    StreamBroken,
)
from holdfast.testing import Call, Delay, HttpRefusal, Reasoning, Tokens
from holdfast.testing.script_file import read_script
from holdfast.testing.scripted_server import ScriptedServer, main
from tests.models.model_fixtures import answer, calls_of, run, text_of

T = TypeVar("T")
BODY: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
}


def with_client(
    script: Sequence[Any],
    ask: Callable[[httpx2.AsyncClient, ScriptedServer], Awaitable[T]],
    **options: Any,  # noqa: ANN401
) -> T:
    async def asked() -> T:
        async with (
            ScriptedServer(script, **options) as server,
            httpx2.AsyncClient(base_url=server.base_url, trust_env=False) as client,
        ):
            return await ask(client, server)

    return run(asked())


def post(script: Sequence[Any], **fields: object) -> httpx2.Response:
    async def ask(client: httpx2.AsyncClient, _: ScriptedServer) -> httpx2.Response:
        return await client.post("/chat/completions", json={**BODY, **fields})

    return with_client(script, ask)


def test_it_lists_its_model_with_the_window() -> None:
    async def ask(client: httpx2.AsyncClient, _: ScriptedServer) -> Any:  # noqa: ANN401 - JSON
        return (await client.get("/models")).json()

    (listed,) = with_client([], ask, name="tiny", context_window=4096)["data"]
    assert (listed["id"], listed["context_length"]) == ("tiny", 4096)


def test_a_whole_answer_is_sent_when_no_stream_is_asked_for() -> None:
    said = post([[Reasoning("hm"), "one two", Call("read", {"a": 1}, "c"), Tokens(9, 2, 4)]]).json()
    (choice,) = said["choices"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"] == {
        "role": "assistant",
        "content": "one two",
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"a": 1}'}}
        ],
    }
    assert said["usage"]["prompt_tokens_details"] == {"cached_tokens": 4}
    assert post(["one"]).json()["usage"]["total_tokens"] == 0  # clients read it without asking


def test_a_stream_ends_in_the_mark_of_the_protocol() -> None:
    said = post(["one two"], stream=True)
    assert said.headers["content-type"] == "text/event-stream"
    events = said.text.strip().split("\n\n")
    assert events[-1] == "data: [DONE]"
    first = json.loads(events[0].removeprefix("data: "))
    assert (first["object"], first["choices"][0]["delta"]) == ("chat.completion.chunk", {"content": "one "})


def test_usage_is_streamed_only_when_it_is_asked_for() -> None:
    assert "prompt_tokens" not in post([["x", Tokens(9)]], stream=True).text
    asked = post([["x", Tokens(9)]], stream=True, stream_options={"include_usage": True})
    assert '"prompt_tokens": 9' in asked.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ModelBusy("m", "slow", 3), 429, "rate_limit_exceeded"),
        (KeyRejected("m", "no"), 401, "invalid_api_key"),
        (NoCredit("m", "no"), 402, "insufficient_quota"),
        (ModelUnknown("m", "no"), 404, "model_not_found"),
        (ContextTooLong("m", "no"), 400, "context_length_exceeded"),
        (RequestRejected("m", "no"), 400, "invalid_value"),
        (ModelUnreachable("m", "no"), 500, "server_error"),
        (ModelFailure("no"), 500, None),
        (ValueError("a bug"), 500, None),
        (HttpRefusal(418, {"code": "teapot"}), 418, "teapot"),
    ],
)
def test_an_error_of_the_script_is_a_status_with_a_code(error: Exception, status: int, code: str) -> None:
    said = post([error])
    assert (said.status_code, said.json()["error"]["code"]) == (status, code)
    assert said.headers.get("retry-after") == ("3" if status == 429 else None)


@pytest.mark.parametrize("kind", [ModelBusy, KeyRejected, NoCredit, ModelUnknown, ContextTooLong])
def test_the_same_error_comes_out_of_the_adapter(kind: type[ModelFailure]) -> None:
    with pytest.raises(kind):
        answer([kind("m", "scripted")])


def test_an_error_after_the_first_piece_breaks_the_stream() -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        post([["half", StreamBroken("m", "cut")]], stream=True)


def test_it_records_what_it_was_asked() -> None:
    async def ask(client: httpx2.AsyncClient, server: ScriptedServer) -> ScriptedServer:
        await client.get("/models")
        await client.post("/chat/completions", json=BODY, headers={"authorization": "Bearer k"})
        return server

    server = with_client(["x"], ask)
    assert server.asked == [BODY]
    assert server.requests[-1].headers["authorization"] == "Bearer k"
    (asked,) = server.model.requests
    assert (asked.system, asked.messages) == ("s", ({"role": "user", "content": "u"},))


def test_another_path_is_not_found() -> None:
    async def ask(client: httpx2.AsyncClient, _: ScriptedServer) -> int:
        return (await client.get("/nowhere")).status_code

    assert with_client([], ask) == 404


def test_two_clients_are_answered_at_once() -> None:
    both = asyncio.Event()
    arrived: list[object] = []

    async def wait_for_both(request: object) -> str:
        arrived.append(request)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        return "together"

    async def ask(client: httpx2.AsyncClient, _: ScriptedServer) -> list[httpx2.Response]:
        return await asyncio.gather(*(client.post("/chat/completions", json=BODY) for _ in range(2)))

    assert [each.status_code for each in with_client([wait_for_both] * 2, ask)] == [200, 200]


SCRIPT = """[
    "hello",
    ["I look.", {"tool": "read", "arguments": {"path": "a"}}, {"tool": "list"}],
    [{"reasoning": "hm"}, {"delay": 0}, "yes", {"tokens": {"input": 9, "output": 1}}],
    {"error": 429, "message": "slow", "code": "busy", "headers": {"Retry-After": "1"}},
    ["half", {"broken": true}],
    ""
]"""


def test_a_script_is_read_from_json() -> None:
    script = read_script(SCRIPT)
    assert text_of(answer(script[:1])) == "hello"
    assert [call[1] for call in calls_of(answer(script[1:])).values()] == ["read", "list"]
    assert script[2] == [Reasoning("hm"), Delay(0), "yes", Tokens(9, 1)]
    refused = script[3]
    assert isinstance(refused, HttpRefusal)
    assert (refused.status, refused.error["code"], refused.headers) == (429, "busy", {"Retry-After": "1"})
    with pytest.raises(StreamBroken):
        answer(script[4:])


@pytest.mark.parametrize("text", ["{", '{"a": 1}', '"text"'])
def test_a_file_that_is_no_script_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="script"):
        read_script(text)


def test_the_command_says_what_is_wrong_with_its_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["--script", str(tmp_path / "none.json")])
    assert "none.json" in capsys.readouterr().err


def test_it_runs_as_a_process_that_prints_its_address(tmp_path: Path) -> None:
    path = tmp_path / "script.json"
    path.write_text(SCRIPT)
    command = [sys.executable, "-W", "error", "-m", "holdfast.testing.scripted_server", "--script", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            address = child.stdout.readline().strip()
            said = httpx2.post(f"{address}/chat/completions", json=BODY, trust_env=False, timeout=20).json()
        finally:
            child.terminate()
    assert said["choices"][0]["message"]["content"] == "hello"
