"""Export and import: the same bytes after a round trip, on one engine and across both."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import ImportRefused, SessionExists
from holdfast.core.ids import new_id
from holdfast.sessions import SessionDB
from tests.sessions.steps import assistant, completed_turn, contents, messages, user
from tests.sessions.stores import Database, sqlite_database

Lines = list[str]


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[SessionDB]:
    """A second, empty store on SQLite, whatever engine the first one is on."""
    folder = tmp_path / "other"
    folder.mkdir()
    other = sqlite_database(folder)
    yield other.open()
    other.close()


def conversation(db: SessionDB) -> Lines:
    """Export a conversation that has something of everything."""
    db.create_session("root", source="cli")
    db.create_session("a", source="cli", title="Über 🎉", parent="root", relation="branch")
    db.append_message("a", {"role": "system", "content": "be kind"})
    completed_turn(db, "a", "first \u2028 question", providers=["p"])
    db.turns.fail(db.turns.open("a", user("second")).id, "model \x7f error", [assistant("half")])
    running = db.turns.open("a", user("third"))
    db.rotate("a", "b", [user("summary")], carry_from=3)
    db.turns.append(running.id, [{"role": "tool", "content": "nul \x00", "tool_call_id": "c"}])
    db.rotate("b", "c", [], carry_from=1)
    db.inbox.put("c", user("waits"), mode="steer", addressed_to=running.id, key="k")
    db.inbox.put("c", {"role": "user", "content": None})
    db.mark_committed("a", 1)
    return db.export_session("b")


def edited(line: str, **changes: object) -> str:
    [(kind, fields)] = json.loads(line).items()
    return json.dumps({kind: fields | changes})


def line_of(lines: Lines, kind: str, nth: int = 0) -> int:
    return [number for number, line in enumerate(lines) if kind in json.loads(line)][nth]


@pytest.mark.clause("C8")
def test_an_export_names_its_format_and_holds_the_whole_lineage(db: SessionDB) -> None:
    lines = conversation(db)
    assert lines == db.export_session("a") == db.export_session("c")
    first, *rest = (json.loads(line) for line in lines)
    assert first == {"holdfast": "conversation", "version": 1}
    assert [each["session"]["id"] for each in rest if "session" in each] == ["a", "b", "c"]
    kinds = [next(iter(each)) for each in rest]
    assert kinds == sorted(kinds, key=["session", "turn", "message", "waiting"].index)
    assert all("\n" not in line and "\x00" not in line for line in lines)


def test_a_conversation_comes_back_byte_for_byte(db: SessionDB, empty: SessionDB) -> None:
    lines = conversation(db)
    assert empty.import_session(lines) == ["a", "b", "c"]
    assert empty.export_session("c") == lines
    assert empty.check() == []
    for session_id in ("a", "b", "c"):
        assert empty.get_messages(session_id) == db.get_messages(session_id)
        assert empty.read_messages(session_id) == db.read_messages(session_id)
    [running] = db.turns.unfinished()
    assert empty.turns.unfinished() == [running]
    assert empty.turns.messages(running.id) == db.turns.messages(running.id)
    assert [each.message for each in empty.inbox.waiting("c")] == [
        each.message for each in db.inbox.waiting("c")
    ]
    assert empty.outbox.list("owed") == [], "what is owed stays with the store that owes it"
    assert [hit.session_id for hit in empty.search("question")] == ["a", "a"]


def test_a_conversation_goes_round_both_engines_byte_for_byte(database: Database, empty: SessionDB) -> None:
    lines = conversation(empty)
    there = database.open()
    there.import_session(lines)
    assert there.export_session("a") == lines
    assert there.check() == []
    again = Path(empty.location).parent / "again"
    again.mkdir()
    back = sqlite_database(again)
    back.open().import_session(there.export_session("a"))
    assert back.open().export_session("c") == lines
    back.close()


def test_an_imported_conversation_goes_on(db: SessionDB, empty: SessionDB) -> None:
    empty.import_session(conversation(db))
    assert empty.live_end("a") == "c"
    [running] = empty.turns.unfinished()
    waiting = empty.inbox.waiting("a") or empty.inbox.waiting("c")
    empty.turns.join(running.id, waiting[0].id)
    finished = empty.turns.complete(running.id, assistant("done"), providers=["p"])
    assert finished.generation == 1
    assert contents(empty.get_messages("c"))[-2:] == ["waits", "done"]
    assert empty.rotate("c", "d", [], carry_from=0).child_id == "d"


@given(
    st.lists(st.lists(messages, max_size=4), min_size=1, max_size=3),
    st.lists(messages, max_size=2),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_conversation_comes_back_byte_for_byte(
    db: SessionDB, empty: SessionDB, stretches: list[list[Any]], waiting: list[Any]
) -> None:
    first = current = new_id()
    db.create_session(current, source="cli")
    for number, said in enumerate(stretches):
        if number:
            child = new_id()
            db.rotate(current, child, said[:1], carry_from=len(db.get_messages(current)) // 2)
            current = child
        db.append_messages(current, said)
        if said:
            turn = db.turns.open(current, said[0])
            db.turns.complete(turn.id, said[-1])
    for message in waiting:
        db.inbox.put(current, message)
    lines = db.export_session(first)
    empty.import_session(lines)
    assert empty.export_session(current) == lines
    # Lines survive a file, whatever characters they hold.
    text = "\n".join(lines).encode().decode()
    assert text.split("\n") == lines


def test_a_pinned_and_archived_conversation_comes_back_so(db: SessionDB, empty: SessionDB) -> None:
    conversation(db)
    db.set_pinned("c", pinned=True)
    pinned = db.export_session("c")
    db.set_archived("c", archived=True)
    both = db.export_session("c")
    marks = [
        {name: value for name, value in json.loads(line)["session"].items() if name in ("pinned", "archived")}
        for line in both[1:4]
    ]
    assert marks == [{"pinned": True, "archived": True}, {}, {}]
    empty.import_session(both)
    assert empty.export_session("b") == both
    assert (empty.listed("a").pinned, empty.listed("a").archived) == (True, True)
    assert empty.list_sessions(archived=False) == []
    empty.set_archived("a", archived=False)
    assert empty.export_session("a") == pinned


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


def test_lines_may_carry_their_line_ends(db: SessionDB, empty: SessionDB, tmp_path: Path) -> None:
    lines = conversation(db)
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with file.open(encoding="utf-8", newline="\n") as opened:
        empty.import_session(opened)
    assert empty.export_session("a") == lines


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


@pytest.mark.slow
def test_ten_thousand_messages_travel(db: SessionDB, empty: SessionDB) -> None:
    db.create_session("s", source="cli")
    db.append_messages("s", [user(f"message {number} 🎉") for number in range(10_000)])
    lines = db.export_session("s")
    empty.import_session(lines)
    assert empty.export_session("s") == lines
    assert [hit.seq for hit in empty.search('"message 9999"')] == [9_999]
