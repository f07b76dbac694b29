"""What an import refuses: all of it, by line and reason, and nothing is stored."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.errors import ImportRefused, SessionExists
from holdfast.sessions import SessionDB
from tests.sessions.exported_lines import Lines, conversation, edited, line_of
from tests.sessions.store_fixtures import user


@pytest.mark.parametrize("mark", ["pinned", "archived"])
@pytest.mark.parametrize("value", [False, None, 1, "yes"])
def test_a_mark_that_no_export_writes_is_refused(
    db: SessionDB, empty: SessionDB, mark: str, value: object
) -> None:
    lines = conversation(db)
    for at, mark_value in ((1, value), (2, True)):
        with pytest.raises(ImportRefused) as refused:
            empty.import_session([*lines[:at], edited(lines[at], **{mark: mark_value}), *lines[at + 1 :]])
        assert refused.value.line == at + 1
    assert empty.get_session("a") is None


def test_an_id_that_exists_refuses_the_whole_import(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    with pytest.raises(SessionExists, match="nothing was imported"):
        db.import_session(lines)
    assert db.export_session("a") == lines
    empty.create_session("c", source="web")
    with pytest.raises(SessionExists) as refused:
        empty.import_session(lines)
    assert refused.value.session_id == "c"
    assert empty.get_session("a") is None
    assert empty.get_messages("c") == []


def test_a_turn_id_that_exists_refuses_the_whole_import(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    turn_line = line_of(lines, "turn")
    empty.create_session("mine", source="cli")
    empty.turns.open("mine", user("q"), turn_id=json.loads(lines[turn_line])["turn"]["id"])
    with pytest.raises(ImportRefused) as refused:
        empty.import_session(lines)
    assert refused.value.line == turn_line + 1
    assert empty.get_session("a") is None


FIELD_FAULTS: dict[str, dict[str, Any]] = {
    "session": {
        "id": ["", None, 5, "nul \x00", "x" * 501, ["a"]],
        "parent": ["nobody", 5],
        "relation": ["cousin", 5],
        "source": ["", None, "half \ud800"],
        "title": [5, "nul \x00"],
        "started": ["now", 1.5, True, None, 2**70],
        "generation": [-1, None, "1"],
        "committed_generation": [99, -1],
        "ended": ["now", True],
        "end_reason": [5, "nul \x00"],
    },
    "turn": {
        "id": ["", None, 5, "nul \x00"],
        "session_id": ["nobody", None],
        "state": ["done", None, ""],
        "started": [None, 1.5, 2**63],
        "generation": ["1"],
        "reason": ["nul \x00", 5],
    },
    "message": {
        "session_id": ["nobody", None],
        "seq": [99, -1, None, "0", True],
        "turn_id": ["nobody", 5],
        "created": [None, "now"],
        "carried": [0, 1, None],
        "message": [None, [], {}, {"content": "x"}, {"role": 5}, {"role": ""}],
    },
    "waiting": {
        "session_id": ["nobody", None],
        "mode": ["now", None],
        "message": [None, {}, {"role": None}],
        "addressed_to": ["nobody", 5],
        "created": [None],
    },
}


def test_every_faulty_field_is_refused_with_its_line_and_nothing_is_imported(
    db: SessionDB, empty: SessionDB
) -> None:
    lines = conversation(db)
    for kind, fields in FIELD_FAULTS.items():
        for name, faults in fields.items():
            number = line_of(lines, kind, nth=-1)
            removed = json.loads(lines[number])
            del removed[kind][name]
            broken = [edited(lines[number], **{name: fault}) for fault in faults]
            for bad in [*broken, json.dumps(removed), edited(lines[number], more=1)]:
                with pytest.raises(ImportRefused) as refused:
                    empty.import_session([*lines[:number], bad, *lines[number + 1 :]])
                assert refused.value.line == number + 1, bad
                assert empty.get_session("a") is None
    empty.import_session(lines)


NO_RECORDS = [
    "",
    "   ",
    "not json",
    "{",
    "null",
    "[]",
    "5",
    '"text"',
    "{}",
    '{"session":null}',
    '{"session":[]}',
    '{"message":{}}',
    '{"unknown":{}}',
    '{"session":{},"turn":{}}',
    '{"message":NaN}',
    "[" * 100_000,
    "\x00",
    '{"holdfast":"conversation","version":1}',
]


def test_a_line_that_is_no_record_is_refused_with_its_number(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    for bad in NO_RECORDS:
        for at in (1, 2, 5, len(lines) - 1, len(lines)):
            with pytest.raises(ImportRefused, match="Nothing was imported") as refused:
                empty.import_session([*lines[:at], bad, *lines[at:]])
            assert refused.value.line == at + 1
            assert empty.get_session("a") is None


@pytest.mark.parametrize(
    "header",
    ["", "{}", "null", '{"holdfast":"conversation","version":2}', '{"holdfast":"backup","version":1}'],
)
def test_a_file_that_is_no_export_is_refused_at_its_first_line(
    db: SessionDB, empty: SessionDB, header: str
) -> None:
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([header, *conversation(db)[1:]])
    assert refused.value.line == 1


def test_a_file_without_any_session_is_refused(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    for short in ([], lines[:1]):
        with pytest.raises(ImportRefused):
            empty.import_session(short)


def repeated(lines: Lines, kind: str) -> tuple[Lines, int]:
    """The file with a line twice, the second one at the end of its kind."""
    number = line_of(lines, kind, nth=-1)
    return [*lines[: number + 1], lines[number], *lines[number + 1 :]], number + 2


@pytest.mark.parametrize("kind", ["session", "turn", "message"])
def test_a_record_that_stands_twice_is_refused(db: SessionDB, empty: SessionDB, kind: str) -> None:
    lines, second = repeated(conversation(db), kind)
    with pytest.raises(ImportRefused) as refused:
        empty.import_session(lines)
    assert refused.value.line == second
    assert empty.get_session("a") is None


def test_a_gap_in_a_transcript_is_refused(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    gap = line_of(lines, "message", nth=1)
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([*lines[:gap], *lines[gap + 1 :]])
    assert refused.value.line == gap + 1
    assert empty.get_session("a") is None


@pytest.mark.clause("C5")
@pytest.mark.parametrize(
    "smuggle",
    [
        lambda lines: edited(lines[1], parent="mine", relation="continuation"),
        lambda lines: edited(lines[1], parent="mine", relation="branch"),
        lambda lines: edited(lines[line_of(lines, "turn")], session_id="mine", id="fresh"),
        lambda lines: edited(lines[line_of(lines, "message")], session_id="mine", seq=1),
        lambda lines: edited(lines[line_of(lines, "message")], turn_id="my turn"),
        lambda lines: edited(lines[line_of(lines, "waiting")], session_id="mine"),
        lambda lines: edited(lines[line_of(lines, "waiting")], addressed_to="my turn"),
    ],
    ids=["continuation", "branch", "turn", "message", "turn_id", "waiting", "addressed_to"],
)
def test_an_import_never_touches_a_conversation_that_is_not_in_the_file(
    db: SessionDB, empty: SessionDB, smuggle: Callable[[Lines], str]
) -> None:
    lines = conversation(db)
    empty.create_session("mine", source="cli")
    empty.turns.complete(empty.turns.open("mine", user("q"), turn_id="my turn").id)
    before = empty.export_session("mine")
    bad = smuggle(lines)
    kind = next(iter(json.loads(bad)))
    at = line_of(lines, kind)
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([*lines[:at], bad, *lines[at + 1 :]])
    assert refused.value.line == at + 1
    assert empty.export_session("mine") == before
    assert empty.children("mine") == []


@pytest.mark.clause("C5")
def test_an_import_can_not_make_a_fork(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    third = line_of(lines, "session", nth=2)
    forked = edited(lines[third], parent="a", relation="continuation")
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([*lines[:third], forked, *lines[third + 1 :]])
    assert refused.value.line == third + 1
    second = line_of(lines, "session", nth=1)
    reopened = edited(lines[1], ended=None, end_reason=None)
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([lines[0], reopened, *lines[2:]])
    assert refused.value.line == second + 1, "only a session that ended is continued"
    assert empty.get_session("a") is None


@pytest.mark.parametrize(
    ("spoilt", "changes", "refused_at"),
    [
        (("session", 0), {"end_reason": "bored"}, ("session", 1)),
        (("turn", -1), {"session_id": "a"}, ("turn", -1)),
        (("waiting", 0), {"session_id": "b"}, ("waiting", 0)),
        (("turn", 0), {"generation": 7}, ("turn", 0)),
        (("session", 2), {"ended": 1, "end_reason": "bored"}, ("turn", -1)),
    ],
)
def test_what_no_store_would_come_to_by_itself_is_refused(
    db: SessionDB,
    empty: SessionDB,
    spoilt: tuple[str, int],
    changes: dict[str, object],
    refused_at: tuple[str, int],
) -> None:
    lines = conversation(db)
    at = line_of(lines, *spoilt)
    with pytest.raises(ImportRefused) as refused:
        empty.import_session([*lines[:at], edited(lines[at], **changes), *lines[at + 1 :]])
    assert refused.value.line == line_of(lines, *refused_at) + 1
    assert empty.get_session("a") is None
