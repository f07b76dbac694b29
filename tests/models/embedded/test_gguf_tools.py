"""Any GGUF file calls tools: its answer is held to a schema, whatever the model makes of the prompt.

The weights here are small and choose badly, so these tests look at the form of a call, not at its wisdom.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.contract import Message
from holdfast.models.contract import ModelRequest, TextPiece, ToolSchema
from holdfast.models.embedded import open_gguf
from holdfast.models.gguf import GgufModel
from tests.models.embedded.gguf_fixtures import answer, asking, calls_of, closed, end_of, text_of

pytestmark = pytest.mark.slow

jsonschema = pytest.importorskip("jsonschema")

WEATHER = ToolSchema(
    "get_weather",
    "The weather in a city.",
    {
        "type": "object",
        "title": "Weather",
        "$defs": {
            "Unit": {"enum": ["celsius", "fahrenheit"], "title": "Unit"},
            "Wind": {
                "type": "object",
                "properties": {"knots": {"type": "boolean"}, "unit": {"$ref": "#/$defs/Unit"}},
                "required": ["knots"],
                "additionalProperties": False,
            },
        },
        "properties": {
            "city": {"type": "string", "minLength": 1, "maxLength": 20, "description": "Its name"},
            "days": {"type": "integer", "minimum": 1, "maximum": 7},
            "wind": {"$ref": "#/$defs/Wind"},
            "unit": {"allOf": [{"$ref": "#/$defs/Unit"}], "default": "celsius"},
            "hours": {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 23},
                "maxItems": 3,
            },
            "note": {"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}], "default": None},
        },
        "required": ["city", "days", "wind", "unit"],
        "additionalProperties": False,
    },
)
NOW = ToolSchema("now", "The time of day.", {"type": "object", "properties": {}})
TREE = ToolSchema(
    "plant",
    "Plants a tree.",
    {
        "$ref": "#/definitions/Node",
        "definitions": {
            "Node": {
                "type": "object",
                "properties": {
                    "kind": {"const": "oak"},
                    "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 9},
                },
                "required": ["kind"],
                "additionalProperties": False,
            }
        },
    },
)
TOOLS = {tool.name: tool for tool in (WEATHER, NOW, TREE)}
# A past full of calls: even small weights go on as they find it.
PAST: list[Message] = [
    message
    for number, (name, arguments) in enumerate(
        [
            ("get_weather", {"city": "Oslo", "days": 2, "wind": {"knots": True}, "unit": "celsius"}),
            ("now", {}),
            ("plant", {"kind": "oak"}),
        ]
    )
    for message in (
        Message(role="user", content=f"Call {name}."),
        Message(
            role="assistant",
            content="",
            tool_calls=[
                {
                    "id": f"c{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": json.dumps(arguments)},
                }
            ],
        ),
        Message(role="tool", tool_call_id=f"c{number}", content="done"),
    )
]
QUESTIONS = [
    "Call get_weather for Paris for 3 days.",
    "Call now.",
    "Call plant to plant an oak.",
    "Call get_weather for Rome.",
]


@pytest.fixture(scope="module")
def model(weights: Path) -> Iterator[GgufModel]:
    opened = open_gguf(weights, context=4096, temperature=0.3)
    yield opened
    closed(opened)


def checked(name: str, arguments: str) -> dict[str, Any]:
    given: dict[str, Any] = json.loads(arguments)
    jsonschema.Draft202012Validator(TOOLS[name].parameters).validate(given)
    return given


@pytest.mark.slow
def test_calls_fit_the_schemas_of_their_tools(model: GgufModel) -> None:
    called = []
    for question in QUESTIONS:
        messages: list[Message] = [*PAST, {"role": "user", "content": question}]
        request = ModelRequest("", messages, list(TOOLS.values()), max_output_tokens=300)
        pieces = asyncio.run(answer(model, request))
        end = end_of(pieces)
        calls = calls_of(pieces)
        assert end.stop_reason == ("tool_calls" if calls else "stop")
        assert bool(calls) != bool(text_of(pieces)), "either an answer or calls"
        assert all(call_id for call_id, _, _ in calls)
        called += [(name, checked(name, arguments)) for _, name, arguments in calls]
    assert called, "asked four times to call a tool, it never did"


def test_an_answer_among_tools_is_streamed_as_plain_text(model: GgufModel) -> None:
    messages: list[Message] = [
        {"role": "user", "content": "Say hello."},
        {"role": "assistant", "content": "Hello there, my friend!"},
        {"role": "user", "content": "Say hello again."},
    ]
    request = ModelRequest("", messages, [NOW], max_output_tokens=100)
    said = [piece for piece in asyncio.run(answer(model, request)) if isinstance(piece, TextPiece)]
    assert len(said) > 1
    assert "{" not in said[0].text


def test_a_schema_that_no_grammar_takes_is_loosened(model: GgufModel) -> None:
    strange = ToolSchema("odd", "Odd.", {"type": "object", "properties": {"x": {"type": "nonsense"}}})
    pieces = asyncio.run(answer(model, asking("Call odd.", most=60, tools=[strange])))
    assert end_of(pieces).stop_reason in ("stop", "tool_calls", "length")


def test_a_call_cut_off_by_its_length_is_no_whole_call(model: GgufModel) -> None:
    pieces = asyncio.run(answer(model, asking("Call get_weather for Paris.", most=6, tools=[WEATHER])))
    assert end_of(pieces).stop_reason == "length"


def test_a_transcript_with_calls_and_results_is_understood_by_the_runtime(model: GgufModel) -> None:
    request = ModelRequest(
        system="Be brief.",
        messages=[
            {"role": "assistant", "content": "Welcome back."},
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}, {"type": "image_url"}]},
            {
                "role": "assistant",
                "content": "I will look.",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "now", "arguments": "{}"}},
                    {"id": "2", "type": "function", "function": {"name": "get_weather", "arguments": "{bro"}},
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "12:00"},
            {"role": "tool", "tool_call_id": "2", "content": "that was no JSON"},
            {"role": "user", "content": "And now?"},
            {"role": "user", "content": "Well?"},
        ],
        tools=[NOW],
        max_output_tokens=60,
    )
    assert len(asyncio.run(answer(model, request))) > 1
    without_tools = ModelRequest(request.system, request.messages, max_output_tokens=10)
    assert text_of(asyncio.run(answer(model, without_tools)))
