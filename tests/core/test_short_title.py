"""A title that is cut from a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.short_title import LONGEST, short_title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("How do I bake bread? I have flour and water.", "How do I bake bread?"),
        ("Fix the login test. It fails on Mondays.", "Fix the login test"),
        ("Hi! Can you look at main.py for me", "Hi! Can you look at main.py for me"),
        ("# Plan\n\n- buy milk", "Plan buy milk"),
        ("word " * 40, "word word word word word word word word word word word word…"),
        ("", ""),
        ("\n***\n", ""),
        ("面" * 100, "面" * LONGEST + "…"),
    ],
)
def test_it_is_the_first_sentence_cut_between_words(text: str, title: str) -> None:
    assert short_title(text) == title


@given(st.text())
def test_it_is_one_short_line(text: str) -> None:
    title = short_title(text)
    assert len(title) <= LONGEST + 1
    assert len(title.splitlines()) <= 1
