"""Which tools of an MCP server are offered to models: those with a schema that every model's API takes.

A schema that an API refuses, or that is larger than a model's window, fails every request that holds it. So
one such tool would block every conversation; it is left out, and the problem names it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.core.messages import storable

if TYPE_CHECKING:
    from mcp_types import Tool as McpTool

SCHEMA_CHARACTERS = 32_000
OFFER_CHARACTERS = 400_000
"""For the schemas of all tools of one server together."""


def usable_tools(
    found: "Sequence[McpTool]",
) -> "tuple[list[tuple[McpTool, dict[str, Any]]], list[str]]":
    """The tools that can be offered, each with its parameters, and a line for each that is left out."""
    usable: list[tuple[McpTool, dict[str, Any]]] = []
    left_out: list[str] = []
    room = OFFER_CHARACTERS
    for tool in found:
        try:
            text, parameters = _checked(tool.input_schema)
        except (ValueError, TypeError, RecursionError) as problem:
            left_out.append(f"{storable(tool.name)[:64]}: {problem}")
            continue
        room -= len(text)
        if room < 0:
            left_out.append(f"{storable(tool.name)[:64]}: the server's tools are too large together")
        else:
            usable.append((tool, parameters))
    return usable, left_out


def _checked(schema: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The schema as text and as it is sent; raises what is wrong with it."""
    # Half a surrogate pair can't be sent, and neither can a number that JSON does not have.
    text = storable(json.dumps({"type": "object", **schema}, ensure_ascii=False, allow_nan=False))
    if len(text) > SCHEMA_CHARACTERS:
        raise ValueError(f"its schema has {len(text):,} characters")
    parameters: dict[str, Any] = json.loads(text)
    properties, required = parameters.setdefault("properties", {}), parameters.get("required", [])
    if parameters["type"] != "object" or not isinstance(properties, dict):
        raise ValueError("its schema is not that of an object")
    if not all(isinstance(each, dict | bool) for each in properties.values()):
        raise ValueError("its schema has a property that is no schema")
    if not isinstance(required, list) or not all(isinstance(each, str) for each in required):
        raise ValueError("its schema requires something that is no name")
    return text, parameters
