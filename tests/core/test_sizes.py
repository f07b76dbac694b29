"""Sizes are written and read as people write them."""

import pytest

from holdfast.core.sizes import parse_size, size_text


@pytest.mark.parametrize(
    ("text", "size"),
    [("200MB", 200_000_000), ("1.5 gb", 1_500_000_000), ("5000", 5000), ("3k", 3000), (" 7 B ", 7), ("0", 0)],
)
def test_a_size_is_a_number_with_a_decimal_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-5MB", "1e9", "5 XB", "1.MB", "200 MB more", "9" * 30])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (999_960, "1 MB"), (200_000_000, "200 MB")],
)
def test_a_size_is_shown_with_one_digit_behind_the_point(size: int, text: str) -> None:
    assert size_text(size) == text
