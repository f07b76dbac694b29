"""Errors are grouped by what the caller can do, and say it."""

import inspect

import pytest

from holdfast.core import errors
from holdfast.core.errors import (
    AlreadyContinued,
    HoldfastError,
    ImportRefused,
    InvalidInput,
    Refused,
    Retryable,
    SessionEnded,
    StoreFailure,
)

ALL = [
    each
    for each in vars(errors).values()
    if inspect.isclass(each) and issubclass(each, BaseException) and each.__module__ == errors.__name__
]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_a_holdfast_error_with_a_place_in_the_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, HoldfastError)
    groups = (Refused, Retryable, StoreFailure, InvalidInput)
    assert kind is HoldfastError or issubclass(kind, groups) or kind.__name__ == "PoolClosed"
    assert kind.__doc__ is None or kind.__doc__.strip()


def test_invalid_input_is_a_value_error_to_those_who_know_no_holdfast() -> None:
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(ImportRefused, InvalidInput)


def test_errors_carry_their_facts() -> None:
    ended = SessionEnded("s", "compression", "child")
    assert (ended.session_id, ended.end_reason, ended.live_end) == ("s", "compression", "child")
    assert "'child'" in str(ended)
    assert "goes on" not in str(SessionEnded("s", "done"))
    assert AlreadyContinued("s", "child").child_id == "child"
    assert ImportRefused(7, "it is odd").line == 7
