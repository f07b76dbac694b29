"""The data of server-sent events, however the network cuts their bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.models.event_data import LIMIT, EventData

EVENTS = (
    "data: one\n\ndata: zwölf\r\n\r\n: a comment\nevent: x\ndata:two\ndata: lines\n\nid: 7\n\n\n\ndata: last"
).encode()
MEANT = ["one", "zwölf", "two\nlines", "last"]


@given(st.sets(st.integers(1, len(EVENTS) - 1)))
def test_the_same_events_are_found_wherever_the_bytes_are_cut(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(EVENTS)]
    reader = EventData()
    found = [data for begin, end in pairwise(places) for data in reader.feed(EVENTS[begin:end])]
    assert [*found, *reader.end()] == MEANT


def test_a_long_event_in_many_pieces_takes_no_longer_than_its_length() -> None:
    reader, piece = EventData(), b"x" * 60
    assert not reader.feed(b"data: ")
    for _ in range(300_000):
        assert not reader.feed(piece)
    (data,) = reader.feed(b"\n\n")
    assert len(data) == 60 * 300_000


@pytest.mark.parametrize(
    "piece", [b"x" * 1000, b"data: " + b"x" * 1000 + b"\n"], ids=["one line", "many lines"]
)
def test_an_event_without_an_end_is_given_up(piece: bytes) -> None:
    reader, content = EventData(), piece * (LIMIT // len(piece) + 1)
    reader.feed(b"data: ")
    with pytest.raises(ValueError, match="without an end"):
        reader.feed(content)


def test_any_number_of_events_is_read() -> None:
    reader, event = EventData(), b"data: " + b"x" * (LIMIT // 4) + b"\n\n"
    assert sum(len(reader.feed(event)) for _ in range(6)) == 6
