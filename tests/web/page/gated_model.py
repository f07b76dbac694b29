"""`GatedModel`: a model server that answers as far as a test lets it, so that nothing waits on a clock.

An answer is a list: texts are streamed word by word, a `Gate` holds the stream until the test opens it, a
`Thought` is reasoning, a `Call` a tool call, a `Refusal` an HTTP error. What is asked beyond the script is
answered with one fixed line.
"""

import asyncio
import json
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Self

from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from holdfast.testing.scripted_model import words

PATIENCE = 90


class Gate:
    """Holds a stream until it is opened; `reached` tells the test that the stream stands before it."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE), "the model was not asked for this answer"

    async def passed(self) -> None:
        self.reached.set()
        await asyncio.get_running_loop().run_in_executor(None, self._opened.wait, PATIENCE)


@dataclass(frozen=True)
class Thought:
    text: str


@dataclass(frozen=True)
class Call:
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    status: int
    message: str


Part = str | Gate | Thought | Call | Refusal


class GatedModel:
    """Serves on a thread of its own. `asked` holds the requests for an answer."""

    def __init__(self) -> None:
        self.script: list[list[Part]] = []
        self.asked: list[Any] = []
        self.models = ["gated"]
        """The names that the server lists."""
        self._loop = asyncio.new_event_loop()
        self._server = LoopbackServer(self._handle)
        self._thread = threading.Thread(target=self._loop.run_forever, name="gated-model", daemon=True)

    def begin_anew(self) -> None:
        """Let every answer end that is still held, and forget the script."""
        for part in (part for answer in self.script for part in answer):
            if isinstance(part, Gate):
                part.open()
        self.script, self.asked, self.models = [], [], ["gated"]

    def will_answer(self, *answers: list[Part] | str) -> None:
        """Play these next, in this order."""
        self.script += [[each] if isinstance(each, str) else each for each in answers]

    @property
    def url(self) -> str:
        return f"{self._server.url}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._server.__aenter__()).result(PATIENCE)
        return self

    def __exit__(self, *exception: object) -> None:
        self.begin_anew()
        self._run(self._server.__aexit__(None, None, None)).result(PATIENCE)
        self._run(self._loop.shutdown_default_executor()).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _handle(self, request: HttpRequest, answer: HttpAnswer) -> None:
        if request.path == "/v1/models":
            known = {"object": "model", "created": 0, "owned_by": "test", "context_length": 128_000}
            known |= {"supported_parameters": ["tools"]}
            data = [{"id": name, **known} for name in self.models]
            await answer.reply(200, {"object": "list", "data": data})
            return
        place = len(self.asked)
        self.asked.append(request.json())
        over: list[Part] = ["The script is over."]
        parts = self.script[place] if place < len(self.script) else over
        await self._play(parts, answer)

    async def _play(self, parts: list[Part], answer: HttpAnswer) -> None:
        calls = 0
        for part in parts:
            if isinstance(part, Refusal):
                error = {"message": part.message, "type": "scripted", "code": None}
                await answer.reply(part.status, {"error": error})
                return
            if isinstance(part, Gate):
                if not answer.started:
                    await answer.start({"content-type": "text/event-stream"})
                await part.passed()
                continue
            for delta in _deltas(part, calls):
                await _send(answer, delta)
            calls += isinstance(part, Call)
        await _send(answer, {}, "tool_calls" if calls else "stop")
        await answer.send(b"data: [DONE]\n\n")
        await answer.end()


def _deltas(part: str | Thought | Call, index: int) -> list[dict[str, Any]]:
    if isinstance(part, str):
        return [{"content": word} for word in words(part)]
    if isinstance(part, Thought):
        return [{"reasoning_content": word} for word in words(part.text)]
    function = {"name": part.name, "arguments": json.dumps(part.arguments)}
    return [
        {"tool_calls": [{"index": index, "id": f"call_{id(part)}", "type": "function", "function": function}]}
    ]


async def _send(answer: HttpAnswer, delta: dict[str, Any], reason: str | None = None) -> None:
    if not answer.started:
        await answer.start({"content-type": "text/event-stream"})
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {
        "id": "1",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "gated",
        "choices": [choice],
    }
    await answer.send(b"data: " + json.dumps(chunk).encode() + b"\n\n")
