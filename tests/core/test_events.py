"""Events cross processes as JSON and come back equal."""

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput
from holdfast.core.events import KINDS, Event, RecalledFrom, TextDelta, event_from_json

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(),
    int: st.integers(),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
    tuple[str, ...]: st.lists(st.text()).map(tuple),
    tuple[RecalledFrom, ...]: st.lists(st.builds(RecalledFrom, st.text(), st.text(), st.text())).map(tuple),
}


def events() -> st.SearchStrategy[Event]:
    return st.one_of(
        [
            st.builds(kind, **{each.name: VALUES[each.type] for each in dataclasses.fields(kind)})
            for kind in KINDS.values()
        ]
    )


@given(events())
def test_an_event_comes_back_equal(event: Event) -> None:
    written = json.dumps(event.to_json())
    assert event_from_json(json.loads(written)) == event


@given(events())
def test_an_event_names_its_kind(event: Event) -> None:
    assert event.to_json()["kind"] == type(event).__name__


def test_every_kind_of_event_can_be_read() -> None:
    def kinds(base: type[Event]) -> set[type[Event]]:
        below = base.__subclasses__()
        return {base}.union(*(kinds(each) for each in below)) if below else {base}

    leaves = {each for each in kinds(Event) if not each.__subclasses__()}
    assert set(KINDS.values()) == leaves


def test_an_event_can_not_be_changed() -> None:
    event = TextDelta(session_id="s", turn_id="t", text="x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.text = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"kind": None},
        {"kind": "Event"},
        {"kind": "Unknown", "session_id": "s"},
        {"kind": ["TextDelta"]},
        {"kind": {}},
        {"kind": "TextDelta"},
        {"kind": "TextDelta", "session_id": "s", "turn_id": "t"},
        {"kind": "TextDelta", "session_id": "s", "turn_id": "t", "text": "x", "more": 1},
        {"kind": "TextDelta", "session_id": "s", "turn_id": "t", "text": "x", 5: 1},
    ],
)
def test_what_is_no_event_is_invalid_input(data: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        event_from_json(data)


def test_reading_an_event_leaves_the_data_as_it_was() -> None:
    data = TextDelta(session_id="s", turn_id="t", text="x").to_json()
    before = dict(data)
    event_from_json(data)
    assert data == before
