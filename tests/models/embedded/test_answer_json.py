"""The constrained answer is read while it is written, wherever the text happens to be cut."""

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.contract import ModelPiece, TextPiece
from holdfast.models.gguf.answer_json import AnswerReader, UnexpectedJson
from tests.models.embedded.gguf_fixtures import calls_of, text_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=3)
CALLS = st.lists(st.tuples(st.text(min_size=1), ARGUMENTS), min_size=1, max_size=3)
INDENT = st.sampled_from([None, 2])


def read_in_pieces(text: str, cuts: list[int]) -> tuple[list[ModelPiece], AnswerReader]:
    reader = AnswerReader()
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    pieces = [piece for start, end in pairwise(places) for piece in reader.pieces(text[start:end])]
    return pieces, reader


@given(
    said=st.text(),
    ascii_only=st.booleans(),
    indent=INDENT,
    cuts=st.lists(st.integers(min_value=0), max_size=20),
)
def test_the_text_of_an_answer_comes_out_decoded(
    said: str, ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    written = json.dumps({"answer": said}, ensure_ascii=ascii_only, indent=indent)
    pieces, reader = read_in_pieces(written, cuts)
    assert text_of(pieces) == said
    assert all(isinstance(piece, TextPiece) for piece in pieces)
    assert reader.whole
    assert reader.calls == 0


@given(
    calls=CALLS, ascii_only=st.booleans(), indent=INDENT, cuts=st.lists(st.integers(min_value=0), max_size=20)
)
def test_tool_calls_come_out_with_their_arguments_as_written(
    calls: list[tuple[str, dict[str, Any]]], ascii_only: bool, indent: int | None, cuts: list[int]
) -> None:
    document = {"tool_calls": [{"name": name, "arguments": arguments} for name, arguments in calls]}
    pieces, reader = read_in_pieces(json.dumps(document, ensure_ascii=ascii_only, indent=indent), cuts)
    read = calls_of(pieces)
    assert [(name, json.loads(arguments)) for _, name, arguments in read] == calls
    assert len({call_id for call_id, _, _ in read}) == len(calls)
    assert reader.whole
    assert reader.calls == len(calls)


@given(said=st.text(min_size=1), ascii_only=st.booleans(), cut=st.integers(min_value=0))
def test_what_has_come_of_a_text_is_shown_before_its_end(said: str, ascii_only: bool, cut: int) -> None:
    written = json.dumps({"answer": said}, ensure_ascii=ascii_only)
    reader = AnswerReader()
    shown = text_of(reader.pieces(written[: cut % len(written)]))
    assert said.startswith(shown)
    assert not reader.whole


@given(halves=st.lists(st.sampled_from([r"\ud83d", r"\ude00", r"\n", "a", r"\u00e9"]), max_size=8))
def test_escaped_halves_are_joined_and_lonely_ones_replaced(halves: list[str]) -> None:
    written = '"' + "".join(halves) + '"'
    expected = json.loads(written).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert text_of(AnswerReader().pieces(f'{{"answer": {written}}}')) == expected


def test_an_answer_without_json_comes_out_as_it_is() -> None:
    reader = AnswerReader()
    assert text_of([*reader.pieces("  Plain "), *reader.pieces("words.")]) == "Plain words."
    assert reader.whole


@pytest.mark.parametrize(
    "written",
    [
        '{"answer": 5}',
        '{"reply": "x"}',
        '{"answer": "x"} y',
        '{"answer": "x",}',
        '{"answer": "\\x"}',
        '{"answer": "\\u12g4"}',
        '{"tool_calls": {}}',
        '{"tool_calls": [1]}',
        '{"tool_calls": [{"name": "a", "arguments": []}]}',
        '{"tool_calls": [{"name": "a"},]}',
        "{5: 6}",
    ],
)
def test_json_of_another_shape_is_refused(written: str) -> None:
    with pytest.raises(UnexpectedJson):
        AnswerReader().pieces(written)


@given(st.text(alphabet='{}[]",:\\u0d8answer_tol c'))
def test_no_text_does_worse_than_being_refused(written: str) -> None:
    with suppress(UnexpectedJson):
        AnswerReader().pieces('{"' + written)
