"""Tools in the JSON of chat completions, written once and never mistaken for each other."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.models.contract import ToolSchema
from holdfast.models.encoded_functions import MAX_KEPT, EncodedFunctions
from tests.models.model_fixtures import READ


def test_tools_are_written_as_functions_in_their_order() -> None:
    other = ToolSchema("schreib", "Schreibt — überall.", {"type": "object", "properties": {}})
    written = json.loads(EncodedFunctions().of([READ, other]))
    assert written == [
        {
            "type": "function",
            "function": {"name": each.name, "description": each.description, "parameters": each.parameters},
        }
        for each in (READ, other)
    ]


class Watched(Mapping[str, Any]):
    """Parameters that count how often they are read."""

    def __init__(self) -> None:
        self.readings = 0

    def __getitem__(self, name: str) -> str:
        return {"type": "object"}[name]

    def __iter__(self) -> Iterator[str]:
        self.readings += 1
        return iter(["type"])

    def __len__(self) -> int:
        return 1


def test_a_tool_is_written_once_for_all_chats_that_have_it() -> None:
    functions, parameters = EncodedFunctions(), Watched()
    first = functions.of([ToolSchema("a", "b", parameters)])
    readings = parameters.readings
    assert functions.of([READ, ToolSchema("a", "b", parameters)]).endswith(first[1:])
    assert parameters.readings == readings > 0


def test_tools_of_one_name_that_come_and_go_are_told_apart() -> None:
    functions = EncodedFunctions()
    for number in range(3 * MAX_KEPT):
        (written,) = json.loads(functions.of([ToolSchema("a", "b", {"number": number})]))
        assert written["function"]["parameters"] == {"number": number}
