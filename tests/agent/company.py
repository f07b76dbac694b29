"""Whom an agent meets in tests: small tools, gates on the loop, and a strict reader of transcripts."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.core.contract import Message
from holdfast.tools.contract import Tool, ToolContext, ToolResult

DEADLINE = 30.0
ANY_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def a_tool(
    name: str,
    run: Callable[[ToolContext, dict[str, Any]], Awaitable[ToolResult | str]],
    timeout: float | None = 60.0,
) -> Tool:
    async def as_result(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        given = await run(context, arguments)
        return given if isinstance(given, ToolResult) else ToolResult(given)

    return Tool(name, f"The tool {name}.", ANY_ARGUMENTS, as_result, timeout=timeout)


def echo() -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        return f"echo {json.dumps(arguments, sort_keys=True)}"

    return a_tool("echo", run)


class Hold:
    """Holds whoever awaits it until it is opened, and says that somebody came."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, *_: object) -> str:
        self.reached.set()
        try:
            await self.opened.wait()
        finally:
            self.left.set()
        return "held"

    def tool(self, name: str = "hold") -> Tool:
        return a_tool(name, self)


def require_valid(messages: Sequence[Message]) -> None:
    """Both model APIs accept this transcript: written from their rules, not from the code under test."""
    assert messages, "an empty transcript"
    assert messages[0]["role"] == "user", "a person begins"
    place = 0
    expected = {"user"}
    while place < len(messages):
        message = messages[place]
        role = message["role"]
        assert role in expected, f"{role} at {place}, where {sorted(expected)} may speak"
        place += 1
        if role == "user":
            assert message.get("content"), f"an empty message at {place}"
            expected = {"assistant"}
            continue
        calls = message.get("tool_calls") or []
        assert calls or message.get("content"), f"an empty answer at {place}"
        ids = [call["id"] for call in calls]
        assert len(set(ids)) == len(ids), "two calls share an id"
        for call in calls:
            assert call["id"]
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
            result = messages[place]
            assert result["role"] == "tool", f"a call without its result at {place}"
            assert result["tool_call_id"] == call["id"], "results are out of order"
            assert result.get("content"), "an empty result"
            place += 1
        expected = {"assistant", "user"} if calls else {"user"}
