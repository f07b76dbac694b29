"""The guard against a very small model that says the same thing until its limit."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.gguf.repetition import RepetitionGuard


def said(text: str, most: int | None = None, size: int = 5) -> str:
    guard = RepetitionGuard(most)
    pieces = [guard.take(text[start : start + size]) for start in range(0, len(text), size)]
    return "".join(pieces) + guard.rest()


def test_a_sentence_that_comes_again_is_not_said() -> None:
    once = "Bread is made of flour. It is baked in an oven."
    assert said(f"{once} It is baked in an oven. It is baked in an oven.").strip() == once


def test_words_that_come_again_and_again_within_a_sentence_are_cut() -> None:
    assert len(said("I like bread and " + "butter and " * 50)) < 60


def test_an_answer_has_a_few_sentences_at_most() -> None:
    three = "1. The first thing. 2. The second thing. 3. The third thing."
    assert said(f"{three} 4. The fourth thing. More.", 3) == three


def test_a_list_that_repeats_its_items_ends() -> None:
    items = "".join(f"{number}. Anise\n" for number in range(1, 40))
    assert said(f"1. Apples\n{items}").count("Anise") <= 4


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=30), st.integers(1, 20))
def test_what_does_not_repeat_itself_is_said_as_it_is(numbers: list[int], size: int) -> None:
    text = " ".join(f"The number {number} is here." for number in numbers)
    assert said(text, size=size) == text
