"""Pieces of streamed answers are put in order, whatever servers make of indexes, ids and names."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import AnswerEmpty, StreamBroken
from holdfast.models.call_pieces import CallPieces
from holdfast.models.completeness import Completeness
from holdfast.models.contract import Finished, ModelPiece, ReasoningPiece, TextPiece, ToolCallPiece, Usage
from holdfast.models.openai_chunks import ChunkReader
from holdfast.testing import ScriptedModel
from tests.models.model_fixtures import REQUEST, calls_of, run

Sent = tuple[int | None, str, str, str]

names = st.sampled_from(["read", "write", "list"])
cuts = st.lists(st.text(min_size=1, max_size=8), max_size=4)


@st.composite
def streamed_calls(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[Sent]]:
    """Some calls as (name, arguments), and the pieces one kind of server sends for them."""
    calls = draw(st.lists(st.tuples(names, cuts), min_size=1, max_size=4))
    indexes = draw(st.sampled_from(["own", "all zero", "none"]))
    repeats = draw(st.booleans())
    lanes: list[list[Sent]] = []
    for place, (name, pieces) in enumerate(calls):
        index = {"own": place, "all zero": 0, "none": None}[indexes]
        lane: list[Sent] = [(index, f"id{place}", name, "")]
        lane += [(index, f"id{place}" if repeats else "", name if repeats else "", each) for each in pieces]
        lanes.append(lane)
    if indexes != "own":  # such servers send one call after another
        return _joined(calls), [piece for lane in lanes for piece in lane]
    heads = [lane.pop(0) for lane in lanes]
    order = draw(st.permutations([place for place, lane in enumerate(lanes) for _ in lane]))
    return _joined(calls), heads + [lanes[place].pop(0) for place in order]


def _joined(calls: Sequence[tuple[str, list[str]]]) -> list[tuple[str, str]]:
    return [(name, "".join(pieces)) for name, pieces in calls]


def ordered(sent: Sequence[Sent]) -> dict[int, tuple[str, str, str]]:
    calls = CallPieces()
    return calls_of([piece for each in sent for piece in calls.add(*each)])


@given(streamed_calls())
def test_calls_are_put_together_again_whatever_the_server_does(
    streamed: tuple[list[tuple[str, str]], list[Sent]],
) -> None:
    calls, sent = streamed
    assert ordered(sent) == {
        place: (f"id{place}", name, arguments) for place, (name, arguments) in enumerate(calls)
    }


@given(st.lists(st.tuples(names, st.text(max_size=9)), min_size=1, max_size=4))
def test_a_server_that_gives_no_ids_gets_ids_that_differ(calls: list[tuple[str, str]]) -> None:
    for index in ("own", None):
        sent = [(place if index else None, "", *call) for place, call in enumerate(calls)]
        found = ordered(sent)
        assert [call[1:] for call in found.values()] == calls
        assert len({call[0] for call in found.values()}) == len(calls)
        assert all(call[0] for call in found.values())


def test_an_id_that_comes_late_makes_no_second_call() -> None:
    made = ordered([(0, "", "read", "{"), (0, "late", "", "}")])
    assert [call[1:] for call in made.values()] == [("read", "{}")]


def read(*chunks: dict[str, Any]) -> list[ModelPiece]:
    """The pieces of chunks as a server sends them, and the end."""
    reader = ChunkReader("m")
    pieces = reader.pieces(chunks)
    if reader.failure is not None:
        raise reader.failure
    return [*pieces, reader.finished()]


def delta(reason: str | None = None, **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_found_under_either_name(field: str) -> None:
    assert read(delta(**{field: "hm"}), delta("stop"))[0] == ReasoningPiece("hm")


def test_reasoning_sent_under_both_names_comes_once() -> None:
    assert read(delta(reasoning="hm", reasoning_content="hm"), delta("stop"))[:-1] == [ReasoningPiece("hm")]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("content_filter", "refused"),
        ("eos", "stop"),
        ("tool_calls", "stop"),
    ],
)
def test_a_stop_reason_is_understood(said: str, meant: str) -> None:
    assert read(delta(content="x"), delta(said))[-1] == Finished(meant)  # type: ignore[arg-type]


def test_calls_decide_that_it_stopped_for_them_though_the_server_says_stop() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "read", "arguments": "{}"}}
    assert read(delta(tool_calls=[call]), delta("stop"))[-1] == Finished("tool_calls")
    assert read(delta(tool_calls=[call]), delta("length"))[-1] == Finished("length")


def test_a_refusal_is_shown_and_says_that_it_is_one() -> None:
    assert read(delta(refusal="I can't."), delta("stop")) == [TextPiece("I can't."), Finished("refused")]


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_server_that_gives_up_breaks_the_stream(reason: str) -> None:
    with pytest.raises(StreamBroken, match=reason):
        read(delta(content="x"), delta(reason))


@pytest.mark.parametrize(
    ("usage", "meant"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 2, 0)),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}},
            Usage(9, 2, 5),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(9, 2, 4)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}, Usage(3, 0, 3)),
        ({"prompt_tokens": None, "completion_tokens": "two"}, Usage()),
    ],
)
def test_usage_is_read_as_far_as_it_is_given(usage: dict[str, Any], meant: Usage) -> None:
    end = read(delta(content="x"), delta("stop"), {"choices": [], "usage": usage})[-1]
    assert end == Finished("stop", meant)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["delta", "content", "tool_calls", "id", "function"]), inner)
        ),
        max_leaves=12,
    )
)
def test_no_shape_of_a_chunk_breaks_the_reader(choices: object) -> None:
    reader = ChunkReader("m")
    found = reader.pieces([{"choices": choices}])
    assert all(isinstance(piece, TextPiece | ToolCallPiece) for piece in found)


def test_an_answer_without_a_word_or_a_call_is_empty() -> None:
    async def ask(script: list[Any]) -> None:
        answer = Completeness("m")
        async for piece in ScriptedModel(script).stream(REQUEST):
            assert answer.check(piece) is piece
        answer.end()

    for empty in ("", "  \n"):
        with pytest.raises(AnswerEmpty, match="empty"):
            run(ask([empty]))
    run(ask([{"tool": "read"}]))
