"""Tools for models that were never taught any: a prompt that explains them, a schema that binds the answer.

The schema holds the model to one JSON object, either `{"answer": …}` or `{"tool_calls": […]}`; its grammar
lets no other token through. `answer_json.py` reads what comes of it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.models.contract import ToolSchema

MOST_CALLS = 8
# What the grammar compiler understands; a keyword beyond these would only make it refuse the schema.
KEPT = frozenset(
    {
        "type",
        "properties",
        "required",
        "items",
        "prefixItems",
        "enum",
        "const",
        "anyOf",
        "oneOf",
        "allOf",
        "$ref",
    }
    | {"additionalProperties", "minItems", "maxItems", "minimum", "maximum", "minLength", "maxLength"}
)
PLACES = ("$defs", "definitions")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

INSTRUCTIONS = """\
Answer with one JSON object and nothing else. There are two kinds:
{"answer": "what you say to the user"}
{"tool_calls": [{"name": "a tool", "arguments": {...}}]}
Call a tool when you need what it gives; its result comes as the next message. Otherwise answer.

The tools:
"""


def tool_prompt(tools: Sequence[ToolSchema]) -> str:
    """What the model is told of its tools."""
    return INSTRUCTIONS + "\n".join(
        f"- {tool.name}: {tool.description}\n  arguments: {json.dumps(tool.parameters, ensure_ascii=False)}"
        for tool in tools
    )


def answer_schema(tools: Sequence[ToolSchema], *, loose: bool = False) -> dict[str, Any]:
    """The JSON schema of an answer; `loose` takes any object as a tool's arguments."""
    definitions: dict[str, Any] = {}
    calls = [_call(tool, number, definitions, loose=loose) for number, tool in enumerate(tools)]
    schema: dict[str, Any] = {
        "anyOf": [
            _object(answer={"type": "string", "minLength": 1}),
            _object(
                tool_calls={
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MOST_CALLS,
                    "items": {"anyOf": calls},
                }
            ),
        ]
    }
    if definitions:
        schema["$defs"] = definitions
    return schema


def _call(tool: ToolSchema, number: int, definitions: dict[str, Any], *, loose: bool) -> dict[str, Any]:
    arguments = {"type": "object"} if loose else _own(tool.parameters, f"tool{number}", definitions)
    return _object(name={"const": tool.name}, arguments=arguments)


def _own(parameters: Mapping[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """A tool's schema for use inside another: its definitions move to the root under names of their own."""
    for place in PLACES:
        for name, definition in parameters.get(place, {}).items():
            definitions[_moved_name(prefix, place, name)] = _kept(definition, prefix)
    kept: dict[str, Any] = _kept(parameters, prefix)
    if not kept.keys() - {"type", "required"} or kept.get("properties") == {}:
        return NO_ARGUMENTS
    return kept if "$ref" in kept else {**kept, "type": "object"}


def _kept(schema: Any, prefix: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """The schema without what the compiler doesn't know: what is left takes at least as much."""
    if not isinstance(schema, Mapping):
        return {}  # `true`; and nobody writes `false` for an argument
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in KEPT:
            kept |= _keyword(key, value, prefix)
    return kept


def _keyword(key: str, value: Any, prefix: str) -> dict[str, Any]:  # noqa: ANN401
    match key:
        case "$ref":
            moved = _moved(str(value), prefix)
            return {"$ref": moved} if moved else {}
        case "properties":
            return {key: {name: _kept(each, prefix) for name, each in value.items()}}
        case "anyOf" | "oneOf":
            return {"anyOf": [_kept(each, prefix) for each in value]}
        case "allOf":
            return dict(_kept(value[0], prefix)) if len(value) == 1 else {}
        case "prefixItems":
            return {key: [_kept(each, prefix) for each in value]}
        case "items":
            return {key: _kept(value, prefix)}
        case "additionalProperties":
            return {key: value if isinstance(value, bool) else _kept(value, prefix)}
        case _:
            return {key: value}


def _moved(reference: str, prefix: str) -> str:
    """Where a definition went; nothing for a reference to anything else."""
    for place in PLACES:
        if reference.startswith(f"#/{place}/"):
            return f"#/$defs/{_moved_name(prefix, place, reference.removeprefix(f'#/{place}/'))}"
    return ""


def _moved_name(prefix: str, place: str, name: str) -> str:
    return f"{prefix}_{place.strip('$')}_{name}"


def _object(**members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }
