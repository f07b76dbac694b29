"""The embedded model answers, says what it is, and reads what it is given."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.errors import ContextTooLong
from holdfast.models.contract import ModelRequest, TextPiece
from holdfast.models.embedded import open_embedded
from holdfast.models.gguf import GgufModel
from tests.models.embedded.gguf_fixtures import answer, asking, closed, end_of, text_of, workers

pytestmark = pytest.mark.slow


def test_it_answers_a_plain_question_in_a_stream_with_its_usage(model: GgufModel) -> None:
    pieces = asyncio.run(answer(model, asking("What is the capital of France?")))
    assert "Paris" in text_of(pieces)
    assert sum(isinstance(piece, TextPiece) for piece in pieces) > 1
    usage = end_of(pieces).usage
    assert usage is not None
    assert usage.input > 5
    assert 1 < usage.output <= 40


def test_the_traits_say_what_it_is(model: GgufModel) -> None:
    traits = model.traits
    assert not traits.calls_tools
    assert not traits.summarises
    assert "stand-in" in traits.notice
    assert "OPENAI_API_KEY" in traits.notice
    assert traits.context_window == 4096


def test_an_answer_that_reaches_its_limit_says_so(model: GgufModel) -> None:
    end = end_of(asyncio.run(answer(model, asking("Tell me a story.", most=5))))
    assert end.stop_reason == "length"
    assert end.usage is not None
    assert end.usage.output == 5


def test_the_next_step_of_a_conversation_reuses_what_was_read(model: GgufModel) -> None:
    first = "My name is Ada and I live in a small house by the sea with a dog and two cats."
    asyncio.run(answer(model, asking(first, most=5)))
    request = ModelRequest(
        "",
        [
            {"role": "user", "content": first},
            {"role": "assistant", "content": "Hello Ada!"},
            {"role": "user", "content": "Hello again."},
        ],
        max_output_tokens=5,
    )
    usage = end_of(asyncio.run(answer(model, request))).usage
    assert usage is not None
    assert usage.cached > 20


def test_long_instructions_are_not_laid_upon_it(model: GgufModel) -> None:
    request = ModelRequest("Follow these rules. " * 200, asking("Hi").messages, max_output_tokens=2)
    usage = end_of(asyncio.run(answer(model, request))).usage
    assert usage is not None
    assert usage.input < 100


def test_short_instructions_are_followed(model: GgufModel) -> None:
    told = ModelRequest("You speak of nothing but cats.", asking("Hi").messages, max_output_tokens=2)
    untold = ModelRequest("", told.messages, max_output_tokens=2)
    lengths = {end_of(asyncio.run(answer(model, each))).usage.input for each in (told, untold)}  # type: ignore[union-attr]
    assert len(lengths) == 2


def test_a_conversation_beyond_the_window_is_too_long(model: GgufModel) -> None:
    with pytest.raises(ContextTooLong, match=r"\d+ tokens, and its window holds 4096"):
        asyncio.run(answer(model, asking("word " * 6000)))
    assert text_of(asyncio.run(answer(model, asking("Hello!"))))


def test_half_characters_and_empty_messages_do_no_harm(model: GgufModel) -> None:
    for text in ("Say hi \ud83d to 漢字 😀", ""):
        assert text_of(asyncio.run(answer(model, asking(text, most=5))))


def test_the_loop_goes_on_while_the_file_is_loaded(weights: Path) -> None:
    async def count_while_loading() -> int:
        model = open_embedded(Path("/nowhere"), weights=weights)
        loading = asyncio.ensure_future(model.warm_up())
        rounds = 0
        while not loading.done():
            await asyncio.wait([loading], timeout=0.01)
            rounds += 1
        await loading
        await model.close()
        return rounds

    assert asyncio.run(count_while_loading()) > 5


def test_a_model_that_was_never_used_closes_and_costs_nothing(weights: Path) -> None:
    before = workers()
    model = open_embedded(Path("/nowhere"), weights=weights)
    assert workers() == before
    closed(model)
