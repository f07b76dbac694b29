"""Runs the tool calls of one answer: in parallel, each with its own time, one failure hurting no other.

`ToolBatch.run` emits events as they happen and stores each result as it comes, so a crash loses none
that had come. Cancelling it cancels every call, and waits for them only as long as `GRACE`.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from holdfast.agent.contract import both_ends
from holdfast.agent.message_repair import BROKEN_ARGUMENTS
from holdfast.agent.tool_hooks import ToolHooks
from holdfast.core.contract import Message, ToolCall
from holdfast.core.error_text import error_text
from holdfast.core.errors import HoldfastError, ToolArgumentsInvalid
from holdfast.core.events import (
    ApprovalAsked,
    AskClosed,
    Emit,
    Event,
    QuestionAsked,
    ToolFinished,
    ToolStarted,
)
from holdfast.core.messages import HOLDFAST_KEY, storable
from holdfast.process.cancellation import is_cancelled
from holdfast.tools.contract import Tool, ToolContext, ToolResult

logger = logging.getLogger(__name__)

GRACE = 0.5
"""How long a cancelled call may take to clean up before it is left behind."""


class ToolBatch:
    """The calls of one answer. `make_context` makes a call's context; `store` keeps a result."""

    def __init__(
        self,
        calls: Sequence[ToolCall],
        tools: Mapping[str, Tool],
        make_context: Callable[[ToolCall, Emit], ToolContext],
        store: Callable[[Message], Awaitable[object]],
        emit: Emit,
        hooks: ToolHooks | None = None,
    ) -> None:
        self._calls = calls
        self._tools = tools
        self._make_context = make_context
        self._store = store
        self._sink = emit
        self._hooks = hooks or ToolHooks()
        self._is_over = False

    async def run(self) -> list[ToolFinished]:
        """Run every call; returns how each ended once its result is stored."""
        running = [asyncio.create_task(self._one(call), name=f"tool {call['id']}") for call in self._calls]
        for task in running:
            task.add_done_callback(_note_failure)
        try:
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
            for task in ended:
                task.result()  # raises what is no tool's fault: the store failed
            return [task.result() for task in running]
        finally:
            self._is_over = True
            await _stop([task for task in running if not task.done()])

    def _emit(self, event: Event) -> None:
        # A call that is left behind has no part in the turn any more.
        if not self._is_over:
            self._sink(event)

    async def _one(self, call: ToolCall) -> ToolFinished:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        waiting = _WaitingTime(self._emit)
        context = self._make_context(call, waiting.emit)
        where = {"session_id": context.session_id, "turn_id": context.turn_id, "call_id": call["id"]}
        self._emit(ToolStarted(**where, name=name, arguments=arguments))
        result = await self._outcome(call, context)
        text = storable(both_ends(result.text)) or "(no output)"
        message = tool_message(call, text, ok=result.ok, waited=waiting.seconds, pictures=result.pictures)
        await self._store(message)
        finished = ToolFinished(**where, name=name, ok=result.ok, output=text)
        self._emit(finished)
        return finished

    async def _outcome(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """The call's result; whatever a tool raises becomes a failed one."""
        name = call["function"]["name"]
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(sorted(self._tools)) or "none"
            return ToolResult(f"There is no tool {name!r}. The tools are: {known}.", ok=False)
        limit = asyncio.timeout(tool.timeout)
        try:
            arguments = tool.check(_read_arguments(call))
            async with limit:
                return await self._hooks.run(tool, context, arguments)
        except HoldfastError as problem:
            return ToolResult(str(problem), ok=False)
        except (Exception, SystemExit, asyncio.CancelledError) as problem:
            if isinstance(problem, asyncio.CancelledError) and is_cancelled():
                raise
            if limit.expired():
                return ToolResult(f"{name} was stopped: it took longer than {tool.timeout:g} s.", ok=False)
            logger.exception("tool.failed", extra={"tool": name, "call": call["id"]})
            return ToolResult(f"{name} failed: {error_text(problem)}", ok=False)


def tool_message(
    call: ToolCall, text: str, *, ok: bool, waited: float = 0.0, pictures: Sequence[str] = ()
) -> Message:
    """A call's result as it is stored: a text, or parts where there are pictures.

    `waited` is how long it waited for a person.
    """
    shown = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}, *shown]
    message: Message = {"role": "tool", "tool_call_id": call["id"], "content": parts if shown else text}
    own = ({} if ok else {"failed": True}) | ({"waited": round(waited, 3)} if waited else {})
    if own:
        message[HOLDFAST_KEY] = own  # type: ignore[literal-required]
    return message


class _WaitingTime:
    """How long one call waited for a person. That time is not the tool's."""

    def __init__(self, emit: Emit) -> None:
        self._sink = emit
        self._since: dict[str, float] = {}
        self.seconds = 0.0

    def emit(self, event: Event) -> None:
        if isinstance(event, (ApprovalAsked, QuestionAsked)):
            self._since[event.ask_id] = asyncio.get_running_loop().time()
        elif isinstance(event, AskClosed) and event.ask_id in self._since:
            self.seconds += asyncio.get_running_loop().time() - self._since.pop(event.ask_id)
        self._sink(event)


def _read_arguments(call: ToolCall) -> dict[str, object]:
    arguments = json.loads(call["function"]["arguments"])
    if set(arguments) == {BROKEN_ARGUMENTS}:
        raise ToolArgumentsInvalid(
            call["function"]["name"], f"they are not a JSON object: {arguments[BROKEN_ARGUMENTS]}"
        )
    return dict(arguments)


def _note_failure(task: "asyncio.Task[ToolFinished]") -> None:
    if not task.cancelled():
        task.exception()  # seen, so asyncio does not warn of it, however late it comes


async def _stop(running: Sequence["asyncio.Task[ToolFinished]"]) -> None:
    if not running:
        return
    for task in running:
        task.cancel()
    _, stuck = await asyncio.wait(running, timeout=GRACE)
    for task in stuck:
        logger.warning("tool.left_behind", extra={"task": task.get_name()})
