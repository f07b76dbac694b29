"""`EncodedFunctions`: tools as chat completions take them, in JSON that is written once for each tool."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.models.contract import ToolSchema

MOST_KEPT = 300
"""Tools whose JSON is kept; beyond, all are written anew."""


class EncodedFunctions:
    """The JSON of tools. From step to step and from chat to chat they are mostly the same."""

    def __init__(self) -> None:
        # The parameters are kept too: while they are, no others can have their id.
        self._kept: dict[tuple[str, str, int], tuple[Mapping[str, Any], bytes]] = {}

    def of(self, tools: Sequence[ToolSchema]) -> bytes:
        """A list of these tools."""
        return b"[" + b",".join([self._one(tool) for tool in tools]) + b"]"

    def _one(self, tool: ToolSchema) -> bytes:
        key = tool.name, tool.description, id(tool.parameters)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            kept = self._kept[key] = tool.parameters, _encoded(tool)
        return kept[1]


def _encoded(tool: ToolSchema) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    whole = {"type": "function", "function": function}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
