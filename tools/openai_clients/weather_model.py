"""The model behind the server while clients are tried: it answers by rules, over real HTTP.

It asks for the weather when it has a tool for it and no result yet, fills in every form that has a city and
degrees, and else answers in words. So an answer that names the result shows that the result arrived.
"""

import json
import re
from typing import Any

from holdfast.core.messages import text_of
from holdfast.models.contract import ModelRequest, ToolSchema
from holdfast.testing import Call

CITIES = ("Rome", "Oslo")
FILE = "greeting.txt\n```\ngood morning\n```\n"
REPORT = {"city": "Rome", "degrees": 21}
RESULT = re.compile(r"21 degrees in (\w+)")


def answer(request: ModelRequest) -> Any:  # noqa: ANN401 - an entry of a script
    """What the model says to this request."""
    said = "\n".join(text_of(each) for each in request.messages)
    wanted = [city for city in CITIES if city in said] or ["Rome"]
    known = list(dict.fromkeys(RESULT.findall(said)))
    tools = {tool.name: tool for tool in request.tools}
    if "weather" in tools and not known:
        return [Call("weather", {"city": city}) for city in _at_once(wanted, request)]
    told = f"It is 21 degrees in {' and '.join(known)}." if known else "Hello from the model."
    for tool in tools.values():
        if call := _filled(tool, wanted, told):
            return call
    if "degrees" in json.dumps(request.options.get("response_format") or {}) or _asks_for_json(said, request):
        return json.dumps(REPORT)
    return FILE if "good morning" in said else told


def _at_once(cities: list[str], request: ModelRequest) -> list[str]:
    return cities[:1] if request.options.get("parallel_tool_calls") is False else cities


def _filled(tool: ToolSchema, cities: list[str], told: str) -> list[Call]:
    """The tool by which a client takes a result: with a city and degrees, or with an answer in words."""
    known = tool.parameters.get("properties") or {}
    if {"city", "degrees"} <= set(known):
        return [Call(tool.name, {"city": city, "degrees": 21}) for city in cities]
    return [Call(tool.name, {"answer": told})] if tool.name == "final_answer" else []


def _asks_for_json(said: str, request: ModelRequest) -> bool:
    """A client without formats asks for JSON in words, and gives the schema in its prompt."""
    plain = (request.options.get("response_format") or {}).get("type") == "json_object"
    return plain or ("degrees" in f"{request.system}\n{said}" and not RESULT.search(said))
