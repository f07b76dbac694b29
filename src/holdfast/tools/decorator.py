"""`@tool`: makes a `Tool` from a typed, documented function, plain or async.

The schema comes from the signature and the docstring (`arguments.py`). A parameter annotated `ToolContext`
gets the context of the call and is not shown to the model. A plain function runs off the event loop.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, cast, overload

from pydantic_core import PydanticSerializationError, to_json

from holdfast.core.errors import InvalidInput, ToolFailed, ToolInvalid
from holdfast.tools.arguments import read_signature
from holdfast.tools.contract import (
    TOOL_SECONDS,
    ApprovalRequest,
    Tool,
    ToolContext,
    ToolResult,
    refusal,
)

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""The tool names that every model API accepts."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


@overload
def tool(
    *,
    name: str | None = None,
    timeout: float | None = TOOL_SECONDS,
    changes: bool = True,
    needs_approval: bool = False,
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: float | None = TOOL_SECONDS,
    changes: bool = True,
    needs_approval: bool = False,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Offer a function to the model.

    It may return a text, a `ToolResult`, or anything that can be written as JSON. The model reads its
    exceptions; raise `ToolFailed` to choose the message. With `needs_approval` each call is approved first,
    by the program's policy or by a person; the kind of the request is the tool's name.
    """
    make = functools.partial(
        _tool, name=name, timeout=timeout, changes=changes, needs_approval=needs_approval
    )
    return make if function is None else make(function)


AnyTool = Tool | Callable[..., Any]
"""A tool, or a typed, documented function."""


def as_tools(given: object) -> list[Tool]:
    """Tools and plain functions as tools; raises `ToolInvalid` for one that a model can't be offered."""
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise InvalidInput(f"tools is a list of functions, such as tools=[rate], not {given!r:.80}")
    return [each if isinstance(each, Tool) else _made_tool(each) for each in given]


def _made_tool(function: object) -> Tool:
    if not callable(function):
        raise ToolInvalid(
            f"{function!r:.60}", "it is no function; a tool is a typed function with a docstring"
        )
    return tool(function)


def _tool(
    function: Callable[..., Any],
    *,
    name: str | None,
    timeout: float | None,
    changes: bool,
    needs_approval: bool,
) -> Tool:
    called = name if name is not None else str(getattr(function, "__name__", ""))
    if not NAME.fullmatch(called):
        raise ToolInvalid(called, "a name has 1 to 64 letters, digits, underscores and hyphens; pass name=…")
    if not inspect.isroutine(function):
        function = cast(Any, function).__call__
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ToolInvalid(called, "it is a generator; return the whole result instead")
    signature = read_signature(function, called)

    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        if needs_approval:
            await _approve(context, called, arguments)
        injected = {} if signature.context is None else {signature.context: context}
        call = functools.partial(function, **arguments, **injected)
        outcome = call() if inspect.iscoroutinefunction(function) else await context.off_loop(call)
        if inspect.isawaitable(outcome):
            outcome = await outcome
        return as_result(called, outcome)

    return Tool(
        name=called,
        description=signature.description,
        parameters=signature.schema(),
        run=run,
        timeout=timeout,
        changes=changes,
        check=functools.partial(signature.check, called),
    )


async def _approve(context: ToolContext, name: str, arguments: dict[str, Any]) -> None:
    shown = to_json(arguments, fallback=str).decode()
    request = ApprovalRequest(subject=f"{name} {shown}", kind=name, arguments=arguments)
    if not await context.person.approve(request):
        raise ToolFailed(f"{name} was not run: {refusal(context.person)}")


def as_result(name: str, outcome: object) -> ToolResult:
    """The return value of a function as a result for the model."""
    match outcome:
        case ToolResult():
            return outcome
        case str():
            return ToolResult(outcome)
        case None:
            return ToolResult("done")
    try:
        return ToolResult(to_json(outcome, by_alias=True).decode())
    except (PydanticSerializationError, UnicodeError, RecursionError, ValueError) as cause:
        raise ToolFailed(
            f"{name} ran, but its result of type {type(outcome).__name__} can't be shown: {cause}"
        ) from cause
