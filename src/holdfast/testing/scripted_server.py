"""`ScriptedServer`: an OpenAI-compatible server on loopback that plays a script.

In a program: `async with ScriptedServer(script) as server: ... server.base_url`. As a process:
`python -m holdfast.testing.scripted_server --script FILE.json`, which prints its address.

The script is that of `ScriptedModel`, so the same one plays in process or over HTTP. An error at the start
of an answer becomes an HTTP status (`ModelBusy` 429 with Retry-After, `KeyRejected` 401, `ContextTooLong`
400, ...; `HttpRefusal` any other); an error after the first piece breaks the stream. An empty string is an
empty answer. In a JSON file an entry may also be `{"error": 429, "message": ..., "code": ..., "type": ...,
"headers": {...}}`, `{"broken": true}`, `{"delay": 0.5}`, `{"reasoning": "..."}` or
`{"tokens": {"input": 9, "output": 2}}`.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Self

from holdfast.core.errors import InvalidInput
from holdfast.models.contract import (
    Finished,
    ModelPiece,
    ModelRequest,
    ReasoningPiece,
    TextPiece,
    ToolCallPiece,
    ToolSchema,
    Usage,
)
from holdfast.process import run
from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.script_file import as_refusal, read_script
from holdfast.testing.scripted_model import Entry, ScriptedModel

CONTENT = ("model", "messages", "tools", "max_tokens", "stream", "stream_options")
"""What of a request has a place of its own; the rest are its options."""


class ScriptedServer:
    """Plays a script over HTTP. `requests` holds the requests with their headers."""

    def __init__(
        self,
        script: Sequence[Entry] = (),
        *,
        name: str = "scripted",
        context_window: int = 128_000,
        port: int = 0,
    ) -> None:
        self.model = ScriptedModel(script, name=name, context_window=context_window)
        self._http = LoopbackServer(self._handle, port=port)

    @property
    def base_url(self) -> str:
        return f"{self._http.url}/v1"

    @property
    def requests(self) -> list[HttpRequest]:
        return self._http.requests

    @property
    def asked(self) -> list[Any]:
        """The bodies of the requests for an answer."""
        return [request.json() for request in self.requests if request.path.endswith("/chat/completions")]

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._http.__aexit__(*exception)

    async def _handle(self, request: HttpRequest, answer: HttpAnswer) -> None:
        if (request.method, request.path) == ("GET", "/v1/models"):
            await answer.reply(200, {"object": "list", "data": [self._listed()]})
        elif (request.method, request.path) == ("POST", "/v1/chat/completions"):
            await self._complete(request.json(), answer)
        else:
            await answer.reply(404, {"error": {"message": "no such path", "type": "not_found"}})

    def _listed(self) -> dict[str, Any]:
        traits = self.model.traits
        return {
            "id": traits.name,
            "object": "model",
            "created": 0,
            "owned_by": "holdfast",
            "context_length": traits.context_window,
        }

    async def _complete(self, body: dict[str, Any], answer: HttpAnswer) -> None:
        playing = _Playing(body, answer)
        try:
            async with aclosing(self.model.stream(as_request(body))) as pieces:
                async for piece in pieces:
                    await playing.add(piece)
        except Exception as refused:  # noqa: BLE001 - a script raises what it likes, and the client is told
            refusal = as_refusal(refused)
            if answer.started or refusal is None:
                answer.cut()
            else:
                await answer.reply(refusal.status, {"error": refusal.error}, refusal.headers)


class _Playing:
    """One answer over HTTP, streamed or whole, as the client asked."""

    def __init__(self, body: dict[str, Any], answer: HttpAnswer) -> None:
        self._body = body
        self._answer = answer
        self._message: dict[str, Any] = {"role": "assistant", "content": None}

    async def add(self, piece: ModelPiece) -> None:
        if isinstance(piece, Finished):
            await self._finish(piece)
        elif self._body.get("stream"):
            await self._send({"choices": [_choice(delta=_delta(piece))]})
        else:
            _join(self._message, _delta(piece))

    async def _finish(self, piece: Finished) -> None:
        if not self._body.get("stream"):
            whole = {"index": 0, "message": self._message, "finish_reason": piece.stop_reason}
            # Clients rely on the usage of a whole answer; OpenAI's always has it.
            usage = _usage(piece.usage or Usage())
            await self._answer.reply(200, self._envelope({"choices": [whole], "usage": usage}))
            return
        await self._send({"choices": [_choice(finish_reason=piece.stop_reason)]})
        if piece.usage and (self._body.get("stream_options") or {}).get("include_usage"):
            await self._send({"choices": [], "usage": _usage(piece.usage)})
        await self._answer.send(b"data: [DONE]\n\n")
        await self._answer.end()

    async def _send(self, chunk: dict[str, Any]) -> None:
        if not self._answer.started:
            await self._answer.start({"content-type": "text/event-stream"})
        await self._answer.send(b"data: " + json.dumps(self._envelope(chunk)).encode() + b"\n\n")

    def _envelope(self, content: dict[str, Any]) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._body.get("stream") else "chat.completion"
        name = str(self._body.get("model", ""))
        return {"id": "chatcmpl-scripted", "object": kind, "created": 0, "model": name, **content}


def as_request(body: Mapping[str, Any]) -> ModelRequest:
    """The client's request, as the functions of a script get it."""
    messages = list(body.get("messages", ()))
    system = messages.pop(0)["content"] if messages and messages[0].get("role") == "system" else ""
    functions = [tool["function"] for tool in body.get("tools") or ()]
    tools = [ToolSchema(each["name"], each.get("description", ""), each["parameters"]) for each in functions]
    options = {name: value for name, value in body.items() if name not in CONTENT}
    return ModelRequest(system, messages, tools, body.get("max_tokens"), options=options)


def _delta(piece: ModelPiece) -> dict[str, Any]:
    match piece:
        case TextPiece(text):
            return {"content": text}
        case ReasoningPiece(text):
            return {"reasoning_content": text}
        case ToolCallPiece():
            call: dict[str, Any] = {"index": piece.index, "function": {"arguments": piece.arguments}}
            if piece.id:
                call.update(id=piece.id, type="function")
                call["function"]["name"] = piece.name
            return {"tool_calls": [call]}
        case _:
            return {}


def _join(message: dict[str, Any], delta: dict[str, Any]) -> None:
    for name in ("content", "reasoning_content"):
        if name in delta:
            message[name] = (message.get(name) or "") + delta[name]
    for call in delta.get("tool_calls", ()):
        calls = message.setdefault("tool_calls", [])
        if call.get("id"):
            calls.append({"id": call["id"], "type": "function", "function": dict(call["function"])})
        else:
            calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]


def _choice(*, delta: dict[str, Any] | None = None, finish_reason: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta or {}, "finish_reason": finish_reason}


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


async def serve(script: Sequence[Entry], *, port: int, name: str, context_window: int) -> None:
    """Serve until cancelled, and print the URL."""
    async with ScriptedServer(script, name=name, context_window=context_window, port=port) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a command."""
    parser = argparse.ArgumentParser(prog="scripted_server", description="Plays a script as a model server.")
    parser.add_argument("--script", type=Path, help="a JSON file; without it every answer is one fixed line")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--name", default="scripted", help="the model's name")
    parser.add_argument("--context-window", type=int, default=128_000)
    given = parser.parse_args(arguments)
    try:
        script = read_script(given.script.read_text(encoding="utf-8")) if given.script else []
    except (OSError, InvalidInput) as cause:
        parser.error(str(cause))
    with suppress(KeyboardInterrupt):
        run(serve(script, port=given.port, name=given.name, context_window=given.context_window))


if __name__ == "__main__":
    main()
