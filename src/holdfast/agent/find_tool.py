"""`find_tool`: the tool by which a model finds those of its tools that its profile does not describe."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from holdfast.core.errors import ToolArgumentsInvalid
from holdfast.models.contract import ToolSchema
from holdfast.tools.contract import Tool, ToolContext, ToolResult

FIND_TOOL = "find_tool"
MAX_FOUND = 4
NAMED = 24
"""How many names the description lists; of more it says how many there are."""
WORD = re.compile(r"[a-z]{3,}")


def find_tool(
    hidden: Sequence[ToolSchema],
    reveal: Callable[[Iterable[str]], None],
    described: Callable[[ToolSchema], ToolSchema],
) -> Tool:
    """The tool that finds `hidden` ones; `reveal` hears which the model may see from now on."""

    async def run(_: ToolContext, arguments: dict[str, Any]) -> ToolResult:
        found = best(hidden, arguments["query"])
        if not found:
            listed = "\n".join(f"- {each.name}: {described(each).description}" for each in hidden)
            return ToolResult(f"No tool fits these words. There are:\n{listed}", ok=False)
        reveal(each.name for each in found)
        shown = "\n".join(_line(described(each)) for each in found)
        return ToolResult(f"You can call these tools now:\n{shown}")

    return Tool(
        name=FIND_TOOL,
        description=f"Find another tool by what it does, and then call it: {_names(hidden)}.",
        parameters={
            "type": "object",
            "properties": {"query": {"type": "string", "description": "what you need to do"}},
            "required": ["query"],
            "additionalProperties": False,
        },
        run=run,
        changes=False,
        check=_checked,
    )


def best(tools: Sequence[ToolSchema], query: str) -> list[ToolSchema]:
    """The tools that share most words with the query; a word in the name counts more."""
    wanted = _words(query)
    scored = []
    for place, tool in enumerate(tools):
        named, told = _words(tool.name.replace("_", " ")), _words(tool.description)
        score = 3 * _shared(wanted, named) + _shared(wanted, told)
        if score:
            scored.append((-score, place, tool))
    return [tool for _, _, tool in sorted(scored, key=lambda each: each[:2])[:MAX_FOUND]]


def _shared(wanted: set[str], words: set[str]) -> int:
    """How many words are in both; one that begins with another of four letters or more is the same."""
    return sum(
        any(one == other or (min(len(one), len(other)) >= 4 and one[:4] == other[:4]) for other in words)  # noqa: PLR2004
        for one in wanted
    )


def _words(text: str) -> set[str]:
    return set(WORD.findall(text.lower()))


def _names(hidden: Sequence[ToolSchema]) -> str:
    names = ", ".join(each.name for each in hidden[:NAMED])
    return names if len(hidden) <= NAMED else f"{names} and {len(hidden) - NAMED} others"


def _line(schema: ToolSchema) -> str:
    arguments = json.dumps(dict(schema.parameters).get("properties", {}), ensure_ascii=False)
    return f"- {schema.name}: {schema.description} Arguments: {arguments}"


def _checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ToolArgumentsInvalid(FIND_TOOL, "query: say in words what you need to do")
    return {"query": query}
