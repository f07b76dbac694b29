"""`ScriptedModel`: a model that plays given answers in order. The base of tests and demos.

One entry of the script is one answer:

- a string: streamed word by word;
- `Call("name", {"argument": 1})`, or a mapping `{"tool": "name", "arguments": {...}}`: a tool call;
- an error: raised, wherever it stands;
- `Delay(seconds)`, or a bare number: waited;
- `Reasoning("text")`: thought, streamed word by word;
- `Tokens(input, output)`: the usage that the answer reports;
- a list of these: one answer made of them, in order (text, then two calls, then a broken stream);
- a function of the request, plain or async: plays what it returns.

A script that is over, or empty from the start, answers with one fixed line.
"""

import asyncio
import inspect
import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from holdfast.core.errors import InvalidInput
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

SCRIPT_IS_OVER = "The script is over."


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `arguments` given as a string are sent as they are, broken ones too."""

    tool: str
    arguments: Mapping[str, Any] | str = "{}"
    id: str = ""


@dataclass(frozen=True, slots=True)
class Delay:
    seconds: float


@dataclass(frozen=True, slots=True)
class Reasoning:
    text: str


Tokens = Usage
"""The usage that the answer reports."""

Entry = (
    str
    | Call
    | Delay
    | Reasoning
    | Tokens
    | float
    | BaseException
    | type[BaseException]
    | Mapping[str, Any]
    | Sequence[Any]
    | Callable[[ModelRequest], Any]
)


class ScriptedModel:
    """Plays a script. `requests` holds the requests, `played` counts the answers that were begun."""

    def __init__(
        self,
        script: Sequence[Entry] = (),
        *,
        name: str = "scripted",
        context_window: int = 128_000,
        traits: ModelTraits | None = None,
        record: bool = True,
    ) -> None:
        self._script = list(script)
        self._traits = traits or ModelTraits(name=name, context_window=context_window)
        self._record = record
        self.requests: list[ModelRequest] = []
        self.played = 0
        self.closed = False

    @property
    def traits(self) -> ModelTraits:
        return self._traits

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """Play the next entry of the script."""
        if self._record:
            # A copy, because the agent continues to change the same list.
            self.requests.append(replace(request, messages=tuple(request.messages)))
        entry = self._script[self.played] if self.played < len(self._script) else SCRIPT_IS_OVER
        self.played += 1
        calls = 0
        usage = None
        for part in await _parts(entry, request):
            match part:
                case str() | Reasoning():
                    for piece in spoken(part):
                        yield piece
                case Call():
                    for call_piece in call_pieces(part, calls, self.played):
                        yield call_piece
                    calls += 1
                case Delay():
                    await asyncio.sleep(part.seconds)
                case Tokens():
                    usage = part
                case _:
                    raise part
        yield Finished("tool_calls" if calls else "stop", usage)

    async def close(self) -> None:
        self.closed = True


def spoken(part: str | Reasoning) -> list[TextPiece] | list[ReasoningPiece]:
    """The pieces of a text or of reasoning."""
    if isinstance(part, str):
        return [TextPiece(piece) for piece in words(part)]
    return [ReasoningPiece(piece) for piece in words(part.text)]


def words(text: str) -> list[str]:
    """Split the text into the pieces in which it is streamed."""
    return re.findall(r"\S*\s*", text)[:-1]


def call_pieces(call: Call, index: int, answer: int) -> list[ToolCallPiece]:
    """A call as it is streamed: the name first, the arguments in two pieces."""
    text = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments)
    half = len(text) // 2
    return [
        ToolCallPiece(index, id=call.id or f"call_{answer}_{index}", name=call.tool),
        ToolCallPiece(index, arguments=text[:half]),
        ToolCallPiece(index, arguments=text[half:]),
    ]


Part = str | Call | Delay | Reasoning | Tokens | BaseException


async def _parts(entry: Any, request: ModelRequest) -> list[Part]:  # noqa: ANN401 - a script holds anything
    if isinstance(entry, type) and issubclass(entry, BaseException):
        return [entry()]
    if callable(entry):
        given = entry(request)
        return await _parts(await given if inspect.isawaitable(given) else given, request)
    if isinstance(entry, (list, tuple)):
        return [part for each in entry for part in await _parts(each, request)]
    return [_part(entry)]


def _part(entry: Any) -> Part:  # noqa: ANN401
    if isinstance(entry, (str, Call, Delay, Reasoning, Tokens, BaseException)):
        return entry
    if isinstance(entry, (int, float)):
        return Delay(entry)
    if isinstance(entry, Mapping):
        named = entry.get("tool") or entry.get("name")
        if isinstance(named, str):
            return Call(named, entry.get("arguments", "{}"), str(entry.get("id", "")))
    raise InvalidInput(f"a script holds texts, calls, errors, delays and functions, not {entry!r}")
