"""Size limits for memory providers: every text, schema and result is bounded before it reaches a prompt.

The limits in characters are fixed and applied on the provider's own thread, so a result of 200 MB is never
copied. The budgets in tokens depend on the model's window (`Budgets` in `contract.py`). Providers share them
fairly: the part that one provider does not need goes to the others. A text that was cut ends with a note.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.messages import storable

RECALL_CHARACTERS = 100_000
NOTE_CHARACTERS = 200
BLOCK_CHARACTERS = 20_000
NOTES_CHARACTERS = 20_000
"""The text that a provider wants a summary to keep."""
RESULT_CHARACTERS = 1_000_000
"""The result of a tool; the agent cuts it further, like the result of any tool."""
FOUND_CHARACTERS = 10_000
"""One hit of a search."""
MAX_FOUND = 200
MAX_TOOLS = 32
SCHEMA_CHARACTERS = 16_000

BYTES_PER_TOKEN = 4
ROOM = 120
"""Bytes reserved for the note about the cut. A text with less room than that is left out completely."""


@dataclass(frozen=True, slots=True)
class BoundedText:
    """A text within its limit, and how many characters were cut from it."""

    text: str
    cut: int = 0
    note: str = ""
    """How the provider says that its answer is limited."""


def bound_text(value: object, most: int, what: str) -> BoundedText:
    """Cut a provider's text to `most` characters and make it storable; TypeError when it is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{what} returned {type(value).__name__}, not text")
    return BoundedText(storable(value[:most]), max(0, len(value) - most))


def with_cut_note(text: BoundedText) -> str:
    """The text, with a note at its end when something was cut."""
    return f"{text.text}\n{_cut_here(text.cut)}" if text.cut else text.text


def share_budget(texts: Mapping[str, BoundedText], tokens: int) -> dict[str, BoundedText]:
    """Fit the texts of several providers into one budget; each cut text ends with a note."""
    sizes = {name: len(with_cut_note(each).encode()) for name, each in texts.items()}
    shares = _shares(sizes, tokens * BYTES_PER_TOKEN)
    return {name: _cut_to(each, shares[name]) for name, each in texts.items()}


def _shares(sizes: Mapping[str, int], budget: int) -> dict[str, int]:
    """Divide the budget equally; a provider that needs less than its share leaves the rest to the others."""
    shares: dict[str, int] = {}
    for done, (name, size) in enumerate(sorted(sizes.items(), key=lambda each: each[1])):
        shares[name] = min(size, budget // (len(sizes) - done))
        budget -= shares[name]
    return shares


def _cut_to(value: BoundedText, room: int) -> BoundedText:
    whole = with_cut_note(value)
    data = whole.encode()
    if len(data) <= room:
        return BoundedText(whole, value.cut)
    if room < ROOM:
        return BoundedText("", value.cut + len(value.text))
    kept = data[: room - ROOM].decode("utf-8", "ignore")
    cut = value.cut + len(value.text) - len(kept)
    return BoundedText(f"{kept}\n{_cut_here(cut)}", cut)


def _cut_here(characters: int) -> str:
    return f"[cut here: {characters} more characters do not fit memory's share of the prompt]"


@dataclass(frozen=True, slots=True)
class ToolSchemas:
    """The tool schemas of a provider that are usable in a request, and why the others are left out."""

    functions: tuple[dict[str, Any], ...] = ()
    left_out: tuple[str, ...] = ()


def check_schemas(value: object) -> ToolSchemas:
    """Keep the valid tool schemas of a provider: functions with a name. TypeError when it is not a list."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value[: MAX_TOOLS + 1]):
        raise TypeError("get_tool_schemas should return a list of schemas")
    functions: list[dict[str, Any]] = []
    left_out: list[str] = []
    for schema in value[:MAX_TOOLS]:
        function = schema.get("function", schema)
        if problem := _schema_problem(function):
            left_out.append(problem)
        else:
            functions.append(json.loads(json.dumps(function)))
    if len(value) > MAX_TOOLS:
        left_out.append(f"{len(value) - MAX_TOOLS} tools beyond the first {MAX_TOOLS}")
    return ToolSchemas(tuple(functions), tuple(left_out))


def _schema_problem(function: object) -> str:
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or not name:
        return "a tool without a name"
    try:
        size = len(json.dumps(function))
    except (TypeError, ValueError, RecursionError):
        return f"{name:.64}, whose schema is no JSON"
    return f"{name:.64}, whose schema has {size} characters" if size > SCHEMA_CHARACTERS else ""


def fit_schemas(offered: Mapping[str, ToolSchemas], tokens: int) -> dict[str, ToolSchemas]:
    """Fit the tools of several providers into one budget: whole tools only, in their order."""
    sizes = {name: sum(map(_size, each.functions)) for name, each in offered.items()}
    shares = _shares(sizes, tokens * BYTES_PER_TOKEN)
    return {name: _fit(each, shares[name]) for name, each in offered.items()}


def _fit(offered: ToolSchemas, room: int) -> ToolSchemas:
    kept: list[dict[str, Any]] = []
    left_out = list(offered.left_out)
    for function in offered.functions:
        room -= _size(function)
        if room < 0:
            left_out.append(f"{function['name']}, which does not fit the model's window")
        else:
            kept.append(function)
    return ToolSchemas(tuple(kept), tuple(left_out))


def _size(function: Mapping[str, Any]) -> int:
    return len(json.dumps(function))
