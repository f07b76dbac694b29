"""Errors are grouped by what the caller can do, and say it."""

import inspect

import pytest

from holdfast.core import errors
from holdfast.core.errors import (
    AlreadyContinued,
    DatabaseDamaged,
    DiskFull,
    HoldfastError,
    ImportRefused,
    InvalidInput,
    ModelFailure,
    NotADatabase,
    OutcomeUnknown,
    PoolClosed,
    Refused,
    Retryable,
    SchemaTooNew,
    SessionEnded,
    StoreBusy,
    StoreClosed,
    StoreFailure,
    StoreFault,
    StoreReadOnly,
    StoreUnopenable,
    StoreUnreachable,
    TurnError,
)

ALL = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, BaseException)]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_is_a_holdfast_error_with_a_place_in_the_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, HoldfastError)
    groups = (Refused, Retryable, StoreFailure, ModelFailure, InvalidInput)
    # The `kind` of a `TurnError` is the class of its cause, which has a group.
    alone = (HoldfastError, PoolClosed, TurnError)
    assert kind in alone or issubclass(kind, groups)


@pytest.mark.parametrize(
    "failure",
    [
        StoreClosed("/here"),
        StoreBusy("/here", 30),
        OutcomeUnknown("/here", "no answer"),
        StoreUnreachable("/here", "no answer"),
        NotADatabase("/here"),
        DatabaseDamaged("/here", "page 3"),
        SchemaTooNew("/here", "0009.pre", "0001.pre"),
        StoreReadOnly("/here"),
        StoreUnopenable("/here", "no such file"),
        DiskFull("/here"),
        StoreFault("/here", "odd"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_a_failure_of_the_store_says_where_and_what_was_kept(failure: StoreFailure) -> None:
    said = str(failure)
    assert "/here" in said
    kept = ("stored nothing", "is kept", "left as it is", "not overwritten", "Nothing was changed")
    assert any(words in said for words in kept), said


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
