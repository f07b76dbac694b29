"""A model server that answers a numbered message with words that say which message they are for.

`say #7` is answered with `a7w1 a7w2 …`, so that a reader of a chat sees what is missing, doubled or in the
wrong place. `long #7` is answered at a length that most platforms split; `look #7` uses a tool first.
"""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from holdfast.testing.http_server import HttpAnswer, HttpRequest, LoopbackServer
from tests.gateway.moments import Moments

SHORT, LONG = 12, 620
BETWEEN_PIECES = 0.06
PIECE = 60
LISTED = {"id": "answers", "object": "model", "created": 0, "owned_by": "tests", "context_length": 128_000}
_SAID = re.compile(r"\b(say|long|look) #(\d+)")


def words_of(kind: str, number: int) -> list[str]:
    """The words of the answer to a message."""
    return [f"a{number}w{at}" for at in range(1, (LONG if kind == "long" else SHORT) + 1)]


class NumberedModel:
    """The model server. `asked` has the number of each message, as often as the model was asked."""

    def __init__(self, moments: Moments | None = None) -> None:
        self._moments = moments
        self.asked: list[int] = []
        self.gate = asyncio.Event()
        """While it is not set, answers stop in the middle."""
        self.gate.set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """The address of the model's API."""
        async with LoopbackServer(self.answer) as server:
            yield f"{server.url}/v1"

    async def answer(self, request: HttpRequest, answer: HttpAnswer) -> None:
        """Answer one request to the model's API."""
        if request.path == "/v1/models":
            await answer.reply(200, {"object": "list", "data": [LISTED]})
            return
        messages = request.json()["messages"]
        kind, number = numbered(messages) or ("say", 0)
        self.asked.append(number)
        if await self._reached("model asked"):
            answer.cut()
            return
        await answer.start({"content-type": "text/event-stream"})
        if kind == "look" and messages[-1]["role"] == "user":
            await self._call_tool(answer)
        else:
            await self._say(answer, words_of(kind, number))
        await answer.send(b"data: [DONE]\n\n")
        await answer.end()
        await self._reached("model answered")

    async def _say(self, answer: HttpAnswer, words: Sequence[str]) -> None:
        size = PIECE if len(words) > PIECE else 1
        for at in range(0, len(words), size):
            await _send(answer, {"content": "".join(f"{each} " for each in words[at : at + size])})
            if at >= len(words) // 2:
                await self.gate.wait()
                await self._reached("answer half said")
            await asyncio.sleep(BETWEEN_PIECES)
        await _send(answer, {}, "stop")

    async def _call_tool(self, answer: HttpAnswer) -> None:
        function = {"name": "read_file", "arguments": json.dumps({"path": "notes.txt"})}
        call = {"index": 0, "id": f"call_{os.urandom(6).hex()}", "type": "function", "function": function}
        await _send(answer, {"tool_calls": [call]})
        await _send(answer, {}, "tool_calls")

    async def _reached(self, moment: str) -> bool:
        return self._moments is not None and await self._moments.reached(moment)


def numbered(messages: Sequence[dict[str, Any]]) -> tuple[str, int] | None:
    """The kind and the number of the last message of a person; None when it has none."""
    said = [_text(each) for each in messages if each["role"] == "user"]
    found = _SAID.findall(said[-1]) if said else []
    return (found[-1][0], int(found[-1][1])) if found else None


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


async def _send(answer: HttpAnswer, delta: dict[str, Any], reason: str | None = None) -> None:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]}
    await answer.send(f"data: {json.dumps(chunk)}\n\n".encode())
