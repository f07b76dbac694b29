"""`EncodedFunctions`: the tools as JSON for chat completions, encoded once for each tool."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.models.contract import ToolSchema

MAX_KEPT = 300
"""How many tools are kept; when there are more, the cache is cleared."""


class EncodedFunctions:
    """A cache of the JSON of tools. Steps and chats mostly use the same tools."""

    def __init__(self) -> None:
        # The parameters are kept too, so that no other object can get their id.
        self._kept: dict[tuple[str, str, int], tuple[Mapping[str, Any], bytes]] = {}

    def of(self, tools: Sequence[ToolSchema]) -> bytes:
        """The JSON list of these tools."""
        return b"[" + b",".join([self._one(tool) for tool in tools]) + b"]"

    def _one(self, tool: ToolSchema) -> bytes:
        key = tool.name, tool.description, id(tool.parameters)
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MAX_KEPT:
                self._kept.clear()
            kept = self._kept[key] = tool.parameters, _encoded(tool)
        return kept[1]


def _encoded(tool: ToolSchema) -> bytes:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    whole = {"type": "function", "function": function}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
