"""What the programs of the clients share: the tool, the form, and how each step is told to the caller.

Standard library only: it runs in the environment of each client.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable

BASE = os.environ["OPENAI_BASE_URL"]
KEY = os.environ["OPENAI_API_KEY"]
MODEL = "holdfast"
HELLO = "Say hello."
ROME = "What is the weather in Rome?"
BOTH = "What is the weather in Rome and in Oslo?"
REPORT = "Report the weather in Rome."
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
asked: list[str] = []
"""The cities that the client's tool was asked for."""


def weather(city: str) -> str:
    """The weather of a city."""
    asked.append(city)
    return f"21 degrees in {city}"


def expect(said: object, *words: str) -> str:
    """Fail unless all of these words were said."""
    text = str(said)
    missing = [word for word in words if word not in text]
    if missing:
        raise AssertionError(f"{missing} not in {text[:200]!r}")
    return text


def expect_tools(said: object, *cities: str) -> str:
    """Fail unless the tool ran for each city, once, and the answer tells its result."""
    if sorted(asked) != sorted(cities):
        raise AssertionError(f"the tool ran for {asked}, not for {list(cities)}")
    return expect(said, "21", *cities)


def expect_report(city: str, degrees: int) -> str:
    if (city, degrees) != ("Rome", 21):
        raise AssertionError(f"the report is {city!r}, {degrees!r}")
    return f"{city}, {degrees}"


def run(**steps: Callable[[], object]) -> None:
    """Run each step, and print how it went as a line of JSON."""
    for name, step in steps.items():
        asked.clear()
        try:
            said, ok = str(step()), True
        except BaseException as problem:  # noqa: BLE001 - whatever a client raises is what the table tells
            traceback.print_exc(file=sys.stderr)
            said, ok = f"{type(problem).__name__}: {problem}", False
        print("\nSTEP " + json.dumps({"step": name, "ok": ok, "said": said[:500]}), flush=True)
