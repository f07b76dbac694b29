"""Messages come back word for word, or are refused."""

import json
import math
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput, MessageInvalid
from holdfast.core.ids import new_id
from holdfast.sessions import InboxMessage, SessionDB
from holdfast.sessions.codec import decode, encode, is_storable
from tests.fast_run import examples
from tests.sessions.store_fixtures import messages, user

any_text = st.text(st.characters())  # half surrogate pairs and NUL included
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(any_text | st.integers() | st.booleans() | st.none(), inner, max_size=3)
    ),
    max_leaves=8,
)

WORD_FOR_WORD: list[dict[str, Any]] = [
    {"role": "user", "content": ""},
    {"role": "user", "content": None},
    {"role": "user"},
    {"role": "user", "content": []},
    {"role": "user", "content": "nul \x00 inside"},
    {"role": "user", "content": "half \ud800 pair"},
    {"role": "user", "content": [{"type": "text", "text": "nul \x00 and \udfff"}]},
    {"role": "user", "content": [{"type": "text"}, {"text": None}, {"text": 5}, {}]},
    {"role": "user", "content": {"not": "a list"}},
    {"role": "user", "content": 5},
    {"role": "user", "content": True},
    {"role": "tool", "content": "x", "tool_call_id": "c1", "extra": {"content": "y", "role": "z"}},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"arguments": "{"}}]},
    {"role": "assistant", "content": "x", "extra": "null"},
    {"role": "assistant", "content": "x", "": "empty key", "\x00": "nul key", "\ud800": "half key"},
    {"role": "assistant", "content": "x", "cost": 0.1, "tiny": 5e-324, "big": 1.7976931348623157e308},
    {"role": "assistant", "content": "x", "minus zero": -0.0, "n": 10**300, "m": -(2**63) - 1},
    {"role": "assistant", "content": "x", "true": True, "one": 1, "one point": 1.0},
    {"role": "🎉 any role", "content": "\u2028\u2029\ufeff\uffff"},
]

REFUSED: list[Any] = [
    None,
    "text",
    [],
    {},
    {"content": "no role"},
    {"role": None, "content": "x"},
    {"role": 5, "content": "x"},
    {"role": ["user"], "content": "x"},
    {"role": "", "content": "x"},
    {"role": "nul \x00", "content": "x"},
    {"role": "half \ud800", "content": "x"},
    {"role": "r" * 501, "content": "x"},
    {"role": "user", "content": math.nan},
    {"role": "user", "content": "x", "cost": math.inf},
    {"role": "user", "content": b"bytes"},
    {"role": "user", "content": object()},
    {"role": "user", "content": {"set"}},
    {"role": "user", "content": "x", "tags": ("a", "b")},
    {"role": "user", "content": "x", 5: "number key"},
    {"role": "user", "content": "x", "deep": [{"keys": {None: 1}}]},
    {"role": "user", "content": "x", "deep": {True: 1}},
    {"role": "user", "content": "x", "deep": {1.5: 1}},
    # Two halves side by side would come back as one whole character.
    {"role": "user", "content": "\ud83d\ude00"},
    {"role": "user", "content": "x", "n": 10**5000},
]


def same(one: object, other: object) -> bool:
    """Equal, and of the same types all the way down: 1, 1.0 and True are three things."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return repr(one) == repr(other)


def put(db: SessionDB, session_id: str, message: Message) -> InboxMessage | None:
    """The message in the inbox; None for what no model takes, which is refused there."""
    try:
        return db.inbox.put(session_id, message)
    except MessageInvalid:
        return None


def test_an_odd_message_comes_back_word_for_word(db: SessionDB) -> None:
    taken = 0
    for message in cast(list[Message], WORD_FOR_WORD):
        session_id = db.create_session(new_id(), source="cli").id
        db.sessions.append_message(session_id, message)
        assert same(db.get_messages(session_id), [message])
        assert same(db.sessions.read(session_id)[0].message, message)
        waiting = put(db, session_id, message)
        if waiting is None:
            continue
        taken += 1
        assert same(waiting.message, message)
        found = db.inbox.get(waiting.id)
        assert found is not None
        assert same(found.message, message)
        turn = db.turns.open(session_id, take=waiting.id)
        assert same(db.turns.messages(turn.id), [message])
    assert taken > len(WORD_FOR_WORD) / 2


def test_what_would_not_come_back_word_for_word_is_refused(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    waiting = db.inbox.put("s", user("waits"))
    turn = db.turns.open("s", user("q"))
    calls: list[Callable[[Message], object]] = [
        lambda message: db.sessions.append_message("s", message),
        lambda message: db.sessions.append_messages("s", [user("fine"), message]),
        lambda message: db.inbox.put("s", message),
        lambda message: db.inbox.edit(waiting.id, message),
        lambda message: db.turns.append(turn.id, [message]),
        lambda message: db.turns.interrupt(turn.id, "stop", [message]),
        lambda message: db.turns.open("s", message),
        lambda message: db.rotate("s", "child", [message], carry_from=0),
    ]
    for message in REFUSED:
        for number, call in enumerate(calls):
            if message is None and number == 6:
                continue
            with pytest.raises(InvalidInput):
                call(message)
    assert db.get_messages("s") == [user("q")]
    assert [each.message for each in db.inbox.waiting("s")] == [user("waits")]
    assert db.children("s") == []


def test_a_message_nested_too_deep_to_be_read_anywhere_is_refused(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidInput):
        db.sessions.append_message("s", cast(Any, {"role": "user", "content": deep}))
    while deep:  # taken apart by hand, since freeing it at once is deep as well
        deep = deep.pop()
    assert db.get_messages("s") == []


def test_whatever_depth_is_accepted_can_be_read_far_down_a_stack(db: SessionDB) -> None:
    def read_at(frames: int, session_id: str) -> list[Message]:
        return read_at(frames - 1, session_id) if frames else db.get_messages(session_id)

    for depth in (50, 98, 99, 100, 101, 200, 500, 900, 950, 990):
        session_id = db.create_session(new_id(), source="cli").id
        nested: Any = "core"
        for _ in range(depth):
            nested = [nested]
        message = cast(Message, {"role": "user", "content": nested})
        try:
            db.sessions.append_message(session_id, message)
        except InvalidInput:
            assert depth > 50
        else:
            assert read_at(400, session_id) == [message]


@given(messages)
def test_any_json_message_survives_the_columns(message: Message) -> None:
    assert same(decode(*encode(message)), message)


@given(messages)
@settings(
    max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_json_message_survives_the_store(db: SessionDB, message: Message) -> None:
    session_id = new_id()
    db.create_session(session_id, source="cli")
    db.sessions.append_message(session_id, message)
    assert same(db.get_messages(session_id), [message])
    waiting = put(db, session_id, message)
    assert waiting is None or same(waiting.message, message)


@given(st.dictionaries(any_text | st.just("role") | st.just("content"), anything) | anything)
@example({"role": "user", "content": "\ud83d\ude00"})
@example({"role": "user", "content": "x", "k": ("t",)})
def test_any_python_value_comes_back_the_same_or_is_refused(value: Message) -> None:
    try:
        columns = encode(value)
    except InvalidInput:
        return
    assert same(decode(*columns), value)
    assert all(is_storable(column) for column in columns if column is not None)
    assert columns.content is not None or columns.extra is not None


@given(st.lists(any_text))
def test_the_text_of_parts_is_searchable_in_order(texts: list[str]) -> None:
    message = {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}
    try:
        columns = encode(cast(Message, message))
    except InvalidInput:
        return
    wanted = [text for text in texts if is_storable(text)]
    rest = columns.content or ""
    for text in wanted:
        assert text in rest
        rest = rest[rest.index(text) + len(text) :]


def test_stored_json_does_not_depend_on_the_order_of_keys_in_the_message(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    one = cast(Message, {"role": "tool", "content": "x", "a": 1, "b": 2})
    other = cast(Message, {"b": 2, "a": 1, "content": "x", "role": "tool"})
    db.sessions.append_messages("s", [one, other])
    first, second = db.get_messages("s")
    assert first == second
    assert json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True)


def test_the_store_keeps_a_copy_not_the_message_itself(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    message = cast(Any, {"role": "user", "content": [{"type": "text", "text": "said"}]})
    waiting = db.inbox.put("s", message)
    db.sessions.append_message("s", message)
    message["content"][0]["text"] = "changed"
    kept = {"role": "user", "content": [{"type": "text", "text": "said"}]}
    assert db.get_messages("s") == [kept]
    assert [each.message for each in db.inbox.waiting("s")] == [kept]
    assert waiting.message == kept
