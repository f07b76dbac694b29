"""The order of a run: each worker's part begins with its share of the long tests, and none is left out."""

import pytest

from tests.run_order import dealt_out


@pytest.mark.parametrize(
    ("parts", "ordered"),
    [
        (1, ["A", "B", "C", "a", "b", "c", "d"]),
        (2, ["A", "C", "a", "b", "B", "c", "d"]),
        (4, ["A", "a", "B", "b", "C", "c", "d"]),
    ],
)
def test_long_tests_begin_every_part(parts: int, ordered: list[str]) -> None:
    assert dealt_out(["A", "B", "C"], ["a", "b", "c", "d"], parts) == ordered
