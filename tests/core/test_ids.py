"""Ids sort by the moment they were made and never repeat."""

import os
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import new_id
from holdfast.core.ids import ALPHABET, LENGTH, RANDOM_BITS, IdFactory, encode
from holdfast.testing import FakeClock
from tests.sessions.store_fixtures import together


def test_an_id_is_26_characters_of_the_alphabet() -> None:
    for made in [new_id() for _ in range(100)]:
        assert len(made) == LENGTH == 26
        assert set(made) <= set(ALPHABET)
        assert made[0] in "01234567", "48 bits of time leave the first digit small"


def test_later_ids_sort_after_earlier_ones() -> None:
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_of_different_factories_sort_by_their_millisecond() -> None:
    clock = FakeClock()
    made = []
    for _ in range(50):
        made.append(IdFactory(clock)())
        clock.advance(0.002)
    assert made == sorted(made)


@pytest.mark.parametrize("step", [0.0, -1.0, -86_400.0, 0.0001])
def test_a_clock_that_stands_still_or_goes_back_does_not_unsort_ids(step: float) -> None:
    clock = FakeClock()
    factory = IdFactory(clock)
    made = []
    for _ in range(1_000):
        made.append(factory())
        clock.advance(step)
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_ids_made_on_many_threads_at_once_never_repeat() -> None:
    factory = IdFactory(FakeClock())
    outcomes = together(*(lambda: [factory() for _ in range(2_000)] for _ in range(8)))
    made = [each for outcome in outcomes for each in cast(list[str], outcome)]
    assert len(set(made)) == 16_000
    for outcome in outcomes:
        own = cast(list[str], outcome)
        assert own == sorted(own)


def test_two_machines_in_the_same_millisecond_make_different_ids() -> None:
    clock = FakeClock()
    assert len({IdFactory(clock)() for _ in range(10_000)}) == 10_000


def test_a_forked_process_does_not_repeat_its_parents_ids() -> None:
    factory = IdFactory(FakeClock())
    factory()
    said, says = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's coverage is not collected
        os.write(says, " ".join(factory() for _ in range(100)).encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(said) as pipe:
        theirs = set(pipe.read().split())
    os.waitpid(child, 0)
    mine = {factory() for _ in range(100)}
    assert len(theirs) == 100
    assert mine.isdisjoint(theirs)


@given(st.integers(0, 2**130 - 1), st.integers(0, 2**130 - 1))
def test_written_numbers_sort_as_the_numbers_do(one: int, other: int) -> None:
    assert (encode(one) < encode(other)) == (one < other)
    assert len(encode(one)) == LENGTH


@given(st.integers(0, 2**48 - 1))
def test_an_id_begins_with_its_millisecond(millisecond: int) -> None:
    digits = encode(millisecond << RANDOM_BITS)[:10]
    value = 0
    for digit in digits:
        value = value * 32 + ALPHABET.index(digit)
    assert value == millisecond
