"""A typed function becomes a tool, and a model's mistakes are told to it."""

import asyncio
import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from holdfast import tool
from holdfast.core.errors import ToolArgumentsInvalid, ToolFailed, ToolInvalid
from holdfast.tools.arguments import parse_arguments
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from tests.tools.call_fixtures import Calls, finish


class Place(BaseModel):
    city: str
    zip: int = 0


@tool
def weather(
    place: Place, unit: Literal["C", "F"] = "C", *, days: Annotated[int, Field(ge=1, le=7)] = 1
) -> str:
    """Say the weather.

    Only of the past.

    Args:
        place: where,
            exactly
        unit: the scale
        days: how many days

    """
    return f"{place.city} {unit} {days}"


def test_the_schema_says_what_the_signature_and_the_docstring_say() -> None:
    assert (weather.name, weather.description) == ("weather", "Say the weather.\n\nOnly of the past.")
    assert weather.parameters == {
        "type": "object",
        "additionalProperties": False,
        "required": ["place"],
        "properties": {
            "place": {"$ref": "#/$defs/Place", "description": "where, exactly"},
            "unit": {"type": "string", "enum": ["C", "F"], "default": "C", "description": "the scale"},
            "days": {
                "type": "integer",
                "minimum": 1,
                "maximum": 7,
                "default": 1,
                "description": "how many days",
            },
        },
        "$defs": {
            "Place": {
                "type": "object",
                "title": "Place",
                "required": ["city"],
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer", "default": 0}},
            }
        },
    }


def test_arguments_reach_the_function_as_its_types(calls: Calls) -> None:
    answered = finish(calls.call_text(weather, '{"place": {"city": "Bern", "zip": "3000"}, "days": "2"}'))
    assert answered == ToolResult("Bern C 2")


def test_a_description_in_the_annotation_wins_over_the_docstring() -> None:
    @tool
    def look(at: Annotated[str, Field(description="the thing")]) -> None:
        """Look.

        Args:
            at: something

        """

    assert look.parameters["properties"]["at"]["description"] == "the thing"


def test_arguments_may_have_names_that_pydantic_keeps_for_itself(calls: Calls) -> None:
    @tool
    def odd(schema: str, model_config: int, _id: str, json: bool = True) -> list[Any]:
        """Take odd names."""
        return [schema, model_config, _id, json]

    assert set(odd.parameters["properties"]) == {"schema", "model_config", "_id", "json"}
    assert calls.run(odd, schema="s", model_config=1, _id="i").text == '["s",1,"i",true]'


def test_the_context_is_given_and_not_shown(calls: Calls) -> None:
    @tool(name="where-am-i", timeout=None, changes=False)
    async def where(context: ToolContext, suffix: str = "") -> str:
        """Say where."""
        context.say("looking")
        return f"{context.session_id}{suffix}"

    assert (where.name, where.timeout, where.changes) == ("where-am-i", None, False)
    assert set(where.parameters["properties"]) == {"suffix"}
    assert calls.run(where, suffix="!").text == "s1!"
    assert calls.said() == "looking"


def test_a_plain_function_runs_off_the_loop_and_an_async_one_on_it(calls: Calls) -> None:
    @tool
    def plain() -> str:
        """Name the thread."""
        return threading.current_thread().name

    @tool
    async def on_loop() -> str:
        """Name the thread."""
        return threading.current_thread().name

    assert calls.run(plain).text.startswith("tools")
    assert calls.run(on_loop).text == threading.current_thread().name


def test_a_bound_method_and_a_callable_object_are_functions_too(calls: Calls) -> None:
    class Counter:
        def up(self, by: int) -> int:
            """Count."""
            return by + 1

        async def __call__(self, by: int) -> int:
            """Count twice."""
            return by + 2

    assert calls.run(tool(Counter().up), by=1).text == "2"
    assert calls.run(tool(name="twice")(Counter()), by=1).text == "3"


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("text", "text"),
        (None, "done"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Point(1), '{"x":1}'),
        (Place(city="ü"), '{"city":"ü","zip":0}'),
        (Path("/a"), '"/a"'),
    ],
)
def test_what_a_function_returns_is_shown_as_text_or_json(calls: Calls, returned: object, text: str) -> None:
    @tool
    def give() -> object:
        """Give it."""
        return returned

    assert calls.run(give) == ToolResult(text)


def test_a_result_that_json_cannot_hold_says_that_the_tool_ran(calls: Calls) -> None:
    @tool
    def give() -> object:
        """Give it."""
        return threading.Lock()

    with pytest.raises(ToolFailed, match=r"give ran, but its result of type lock can't be shown"):
        calls.run(give)


def test_what_a_function_raises_comes_out(calls: Calls) -> None:
    @tool
    def fail() -> None:
        """Fail."""
        raise ToolFailed("no ink")

    with pytest.raises(ToolFailed, match="no ink"):
        calls.run(fail)


def test_a_cancelled_call_does_not_wait_for_its_thread(calls: Calls) -> None:
    begun, let_go = threading.Event(), threading.Event()

    @tool
    def wedge() -> None:
        """Hang."""
        begun.set()
        let_go.wait(20)

    async def main() -> None:
        task = asyncio.create_task(calls.call(wedge))
        while not begun.is_set():  # noqa: ASYNC110 - set by a plain thread
            await asyncio.sleep(0)  # noqa: TID251 - gives way once
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    finish(main())
    let_go.set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"place": ', r"not JSON: Expecting value at character 10.*cut off.*one JSON object"),
        ("[1]", "a JSON list, not an object"),
        ('"{}"', "a JSON str, not an object"),
        ("null", "a JSON NoneType, not an object"),
        ("[" * 100_000, "not usable JSON"),
        ('{"days": ' + "9" * 5000 + "}", "not usable JSON"),
        ("", "place is missing"),
        ('{"place": {"zip": 1}}', "place.city is missing"),
        ('{"place": {"city": "x"}, "unit": "K"}', "unit: Input should be 'C' or 'F', not 'K'"),
        ('{"place": {"city": "x"}, "days": 9}', "days: Input should be less than or equal to 7, not 9"),
        ('{"plaice": 1, "place": {"city": "x"}}', r"no argument plaice \(it takes: place, unit, days\)"),
    ],
)
def test_a_models_mistake_is_told_in_words_it_can_act_on(text: str, said: str) -> None:
    with pytest.raises(ToolArgumentsInvalid, match=said) as raised:
        parse_arguments(weather, text)
    assert str(raised.value).startswith("the arguments of weather can't be used: ")
    assert len(str(raised.value)) < 500


@given(st.text())
def test_any_text_is_taken_or_refused_by_name(text: str) -> None:
    with contextlib.suppress(ToolArgumentsInvalid):
        assert parse_arguments(weather, text)["place"]


def untyped(a) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Take anything."""


def undocumented(a: int) -> None: ...


def spread(*a: int) -> None:
    """Take many."""


def unknown(a: "Nothing") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Take nothing."""


def unschemed(a: threading.Event) -> None:
    """Take a lock."""


def fielded(a: int = Field(default=1)) -> None:
    """Take a field."""


def stream() -> Any:  # noqa: ANN401
    """Stream."""
    yield 1


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (untyped, "the argument 'a' has no type"),
        (undocumented, "no docstring"),
        (spread, "can't be given by name"),
        (unknown, "signature can't be read"),
        (unschemed, "no JSON schema"),
        (fielded, "Annotated"),
        (stream, "generator"),
        (lambda: None, "1 to 64 letters"),
    ],
)
def test_a_function_that_no_model_could_call_is_refused_at_once(function: Any, said: str) -> None:  # noqa: ANN401
    with pytest.raises(ToolInvalid, match=said):
        tool(function)


def test_a_tool_made_by_the_decorator_is_a_plain_tool() -> None:
    assert isinstance(weather, Tool)
    assert weather.timeout == 120
    assert weather.changes
