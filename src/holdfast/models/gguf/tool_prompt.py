"""Tools for models that were not trained for them: a prompt that explains tools, and a schema for answers.

The schema limits the answer to one JSON object, either `{"answer": …}` or `{"tool_calls": […]}`: the grammar
allows no other token. `answer_json.py` reads the answer.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.models.contract import ToolSchema

MAX_CALLS = 8
# The keywords that the grammar compiler knows. It refuses a schema with any other.
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
# What the grammar enforces anyway, or only a program needs to know.
UNSAID = frozenset({"additionalProperties", "minLength", "maxLength", "pattern", "title"})
DEFINITION_KEYS = ("$defs", "definitions")
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

INSTRUCTIONS = """\
Answer with one JSON object and nothing else. There are two kinds:
{"answer": "what you say to the user"}
{"tool_calls": [{"name": "a tool", "arguments": {...}}]}
Call a tool when you need what it gives; its result comes as the next message. Otherwise answer.

The tools:
"""


def tool_prompt(tools: Sequence[ToolSchema]) -> str:
    """The part of the prompt that explains the tools."""
    return INSTRUCTIONS + "\n".join(
        f"- {tool.name}: {tool.description}\n"
        f"  arguments: {json.dumps(_said(tool.parameters), ensure_ascii=False)}"
        for tool in tools
    )


def _said(schema: Any) -> Any:  # noqa: ANN401 - JSON of any shape
    """The schema as the prompt shows it: without what the model has no use for."""
    if not isinstance(schema, Mapping):
        return schema
    return {
        key: {name: _said(each) for name, each in value.items()} if key == "properties" else value
        for key, value in schema.items()
        if key not in UNSAID
    }


def answer_schema(tools: Sequence[ToolSchema], *, loose: bool = False) -> dict[str, Any]:
    """The JSON schema of an answer; with `loose`, the arguments of a tool may be any object."""
    definitions: dict[str, Any] = {}
    calls = [_call(tool, number, definitions, loose=loose) for number, tool in enumerate(tools)]
    schema: dict[str, Any] = {
        "anyOf": [
            _object(answer={"type": "string", "minLength": 1}),
            _object(
                tool_calls={
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_CALLS,
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
    """A tool's schema as part of another: its definitions move to the root and get unique names."""
    for section in DEFINITION_KEYS:
        for name, definition in parameters.get(section, {}).items():
            definitions[_moved_name(prefix, section, name)] = _kept(definition, prefix)
    kept: dict[str, Any] = _kept(parameters, prefix)
    if not kept.keys() - {"type", "required"} or kept.get("properties") == {}:
        return NO_ARGUMENTS
    return kept if "$ref" in kept else {**kept, "type": "object"}


def _kept(schema: Any, prefix: str) -> Any:  # noqa: ANN401 - JSON of any shape
    """The schema without unknown keywords. The result allows everything that the original allows."""
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
    """The new reference to a moved definition; empty for any other reference."""
    for section in DEFINITION_KEYS:
        if reference.startswith(f"#/{section}/"):
            return f"#/$defs/{_moved_name(prefix, section, reference.removeprefix(f'#/{section}/'))}"
    return ""


def _moved_name(prefix: str, section: str, name: str) -> str:
    return f"{prefix}_{section.strip('$')}_{name}"


def _object(**members: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }
