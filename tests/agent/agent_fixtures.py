"""Small tools, gates on the loop, engines that fail, and a strict check of transcripts."""

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from holdfast.core.contract import Message
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.contract import Engine, Operation, Transaction
from holdfast.testing import CrashingEngine, ProcessDied
from holdfast.testing.faults import EngineProxy, Moment
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from tests.polling import pauses

T = TypeVar("T")

DEADLINE = 120.0
"""Far beyond what a loaded machine takes: only what hangs for good meets it."""
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

    def __init__(self, answer: str = "held") -> None:
        self._answer = answer
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, *_: object) -> str:
        self.reached.set()
        try:
            await self.opened.wait()
        finally:
            self.left.set()
        return self._answer

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
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["function"]["name"]), "a name no API takes"
            arguments = json.loads(call["function"]["arguments"], parse_constant=_refuse)
            assert isinstance(arguments, dict)
            json.dumps(arguments, ensure_ascii=False).encode()
            result = messages[place]
            assert result["role"] == "tool", f"a call without its result at {place}"
            assert result["tool_call_id"] == call["id"], "results are out of order"
            assert result.get("content"), "an empty result"
            place += 1
        expected = {"assistant", "user"} if calls else {"user"}


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


class MortalEngine(CrashingEngine):
    """An engine whose process dies at a chosen write, and stays dead until it is started again."""

    def die_at(self, write: int | None, moment: Moment = "before") -> None:
        """Die at the given write from now on, counted from 0; None: live."""
        self.restart()
        if write is not None:
            self.arm(moment, skip=write, for_good=True)

    def _refuse_dead(self) -> None:
        if self.dead:
            raise ProcessDied("before")


class HoldingEngine(EngineProxy):
    """An engine whose next write waits, before it reaches the store, until the test lets it go."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._hold = False
        self.reached = threading.Event()
        self.opened = threading.Event()

    def hold_next_write(self) -> None:
        self._hold = True

    def write(self, work: Callable[[Transaction], T]) -> T:
        if self._reached():
            assert self.opened.wait(DEADLINE)
        return super().write(work)

    async def run(self, operation: Operation[T], pool: DaemonPool) -> T:
        if self._reached():
            assert await off_loop(pool, self.opened.wait, DEADLINE)
        return await super().run(operation, pool)

    def _reached(self) -> bool:
        held, self._hold = self._hold, False
        if held:
            self.reached.set()
        return held


class FailingEngine(EngineProxy):
    """An engine whose chosen call fails as a real one would: nothing of it is stored."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._failures: dict[str, list[Exception | None]] = {"write": [], "read": []}

    def fail_next_write(self, *failures: Exception | None) -> None:
        """Fail the next writes in this order; None lets one through."""
        self._failures["write"] = list(failures)

    def fail_next_read(self, *failures: Exception | None) -> None:
        self._failures["read"] = list(failures)

    def changed(self, work: Callable[[Transaction], T]) -> Callable[[Transaction], T]:
        self._fail("write")
        return work

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._fail("read")
        return super().read(work)

    def _fail(self, what: str) -> None:
        planned = self._failures[what]
        if planned and (failure := planned.pop(0)) is not None:
            raise failure


async def a_step() -> None:
    """Let every task that is ready take one step."""
    loop = asyncio.get_running_loop()
    taken = loop.create_future()
    loop.call_soon(taken.set_result, None)
    await taken


async def until(condition: Callable[[], bool]) -> None:
    """Wait for an observable condition without holding up the loop, under the test's deadline."""
    for pause in pauses():
        if condition():
            return
        await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
