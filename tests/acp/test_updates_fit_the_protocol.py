"""Whatever happens in a turn: every update that an editor gets is one of the protocol's schema."""

import dataclasses
import json
from pathlib import Path
from typing import Any, get_type_hints

from acp import schema
from acp.utils import serialize_params
from hypothesis import given
from hypothesis import strategies as st

from holdfast.acp.permissions import approval_options, asked_about, choice_options
from holdfast.acp.replay import Replay
from holdfast.acp.turn_updates import TurnUpdates, Update
from holdfast.core import events as ev
from holdfast.sessions.contract import StoredMessage

FOLDER = Path("/project")
IDS = st.sampled_from(["", "a", "b", "\ud800"])
TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(["\ud800", "\0", "half \udfff", ""]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["read_file", "write_file", "edit_file", "run_command", "todo", "delegate", "x\ud800", ""]
)
ITEMS = st.lists(st.fixed_dictionaries({"text": TEXTS, "state": st.sampled_from(["done", "pending", "odd"])}))
ARGUMENTS = st.one_of(
    TEXTS,
    JSON.map(json.dumps),
    st.fixed_dictionaries(
        {"path": TEXTS},
        optional={"text": TEXTS, "old": TEXTS, "new": TEXTS, "start": st.integers(), "items": ITEMS | JSON},
    ).map(json.dumps),
)


def _fields(kind: type[ev.Event]) -> st.SearchStrategy[ev.Event]:
    by_name: dict[str, st.SearchStrategy[Any]] = {
        "name": NAMES,
        "arguments": ARGUMENTS,
        "turn_id": IDS,
        "call_id": IDS,
    }
    by_type: dict[Any, st.SearchStrategy[Any]] = {
        str: TEXTS,
        int: st.integers(-5, 10**9),
        float: st.floats(),
        bool: st.booleans(),
        tuple[str, ...]: st.lists(st.sampled_from(["yes", "always", "no", "\ud800"])).map(tuple),
        tuple[ev.RecalledFrom, ...]: st.just(()),
    }
    hints = get_type_hints(kind)
    given_fields = {
        field.name: by_name.get(field.name, by_type[hints[field.name]]) for field in dataclasses.fields(kind)
    }
    return st.builds(kind, **given_fields)


EVENTS = st.lists(st.one_of([_fields(kind) for kind in ev.KINDS.values()]), max_size=25)


def check(update: Update) -> None:
    """It is sent as valid JSON, and read as the same by the protocol's own models."""
    sent = serialize_params(schema.SessionNotification(session_id="s", update=update))
    line = json.dumps(sent, allow_nan=False, ensure_ascii=False)
    line.encode()  # refuses half a character
    read = schema.SessionNotification.model_validate_json(line)
    assert type(read.update) is type(update)
    # The models of the SDK leave out what they can't read: nothing may be missing.
    assert serialize_params(read) == sent


@given(EVENTS)
def test_every_update_of_every_event_fits(events: list[ev.Event]) -> None:
    updates, begun = TurnUpdates(FOLDER), set[str]()
    for event in events:
        for update in updates.of(event):
            check(update)
            if isinstance(update, schema.ToolCallStart):
                begun.add(update.tool_call_id)
            elif isinstance(update, schema.ToolCallProgress):
                # An editor can't show the progress of a call that it was never told of.
                assert update.tool_call_id in begun
        for update in updates.missed(getattr(event, "text", "")):
            check(update)
        if isinstance(event, ev.ApprovalAsked | ev.QuestionAsked):
            _check_question(event, updates)


def _check_question(asked: ev.ApprovalAsked | ev.QuestionAsked, updates: TurnUpdates) -> None:
    if isinstance(asked, ev.ApprovalAsked):
        options = approval_options(asked.decisions)
        assert {each.option_id for each in options} == {*asked.decisions} & {"yes", "always", "no"}
    else:
        options = choice_options(asked.choices)
    call = asked_about(asked, updates.call(asked.turn_id, asked.call_id))
    request = schema.RequestPermissionRequest(session_id="s", tool_call=call, options=options)
    line = json.dumps(serialize_params(request), allow_nan=False)
    assert serialize_params(schema.RequestPermissionRequest.model_validate_json(line)) == json.loads(line)


@given(st.lists(TEXTS, max_size=8), st.integers(1, 5))
def test_a_streamed_answer_is_shown_once_also_after_a_gap(pieces: list[str], gap: int) -> None:
    pieces = [each for each in pieces if "\ud800" not in each and "\udfff" not in each]
    whole, updates, shown = "".join(pieces), TurnUpdates(FOLDER), ""
    happened: list[ev.Event] = [ev.TextDelta(session_id="s", turn_id="t", text=each) for each in pieces]
    # What was said between the gap and its end is known from the answer alone.
    for event in [*happened[:gap], ev.TurnCompleted(session_id="s", turn_id="t", final_response=whole)]:
        shown += "".join(each.content.text for each in updates.of(event))  # type: ignore[union-attr]
    assert shown == whole.replace("\0", "\ufffd")


MESSAGES = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, TEXTS),
    st.builds(
        lambda text, name, arguments, call: {
            "role": "assistant",
            "content": text,
            "tool_calls": [
                {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
            ],
        },
        TEXTS,
        NAMES,
        ARGUMENTS,
        IDS,
    ),
    st.builds(lambda text, call: {"role": "tool", "content": text, "tool_call_id": call}, TEXTS, IDS),
)


@given(st.lists(MESSAGES, max_size=12))
def test_every_update_of_a_loaded_conversation_fits(messages: list[Any]) -> None:
    stored = [StoredMessage("s", number, "t", 0, False, message) for number, message in enumerate(messages)]
    replay = Replay(FOLDER)
    for update in [*replay.of(stored), *replay.left_open()]:
        check(update)
