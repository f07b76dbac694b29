"""Export and import of a conversation as JSON Lines, the same bytes after a round trip.

The first line names the format; then come the sessions of the lineage, oldest first, their turns, their
messages and what still waits in the inbox. That a conversation is pinned or archived stands on its first
session, where it is true: a file that says nothing of it is older, or of one that is neither. So does its
scope, unless it is the owner's. What is
owed to memory providers belongs to the store it is owed from and does not travel, nor does the tie of a
branch to a conversation that isn't in the file.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Literal, NamedTuple, get_args

from holdfast.core.content import check_parts
from holdfast.core.errors import ConstraintBroken, ImportRefused, InvalidInput, SessionExists
from holdfast.sessions.codec import LARGEST, Unreadable, checked_name, encode, is_storable, to_json
from holdfast.sessions.contract import MODES, OWNER, Engine, Operation, Relation, Transaction, TurnRecord
from holdfast.sessions.conversation_list import listed_conversation
from holdfast.sessions.inbox import waiting_messages
from holdfast.sessions.rotation import END_REASON
from holdfast.sessions.transcripts import (
    lineage,
    read_messages,
    require_session,
)

FORMAT = {"holdfast": "conversation", "version": 1}

Kind = Literal["session", "turn", "message", "waiting"]
Kinds = tuple[type, ...]

TEXT: Kinds = (str,)
NUMBER: Kinds = (int,)
MAYBE_TEXT: Kinds = (str, type(None))
MAYBE_NUMBER: Kinds = (int, type(None))
FIELDS: dict[Kind, dict[str, Kinds]] = {
    "session": {
        "id": TEXT,
        "parent": MAYBE_TEXT,
        "relation": MAYBE_TEXT,
        "source": TEXT,
        "title": MAYBE_TEXT,
        "started": NUMBER,
        "ended": MAYBE_NUMBER,
        "end_reason": MAYBE_TEXT,
        "generation": NUMBER,
        "committed_generation": NUMBER,
    },
    "turn": {
        "id": TEXT,
        "session_id": TEXT,
        "state": TEXT,
        "started": NUMBER,
        "ended": MAYBE_NUMBER,
        "reason": MAYBE_TEXT,
        "generation": MAYBE_NUMBER,
    },
    "message": {
        "session_id": TEXT,
        "seq": NUMBER,
        "turn_id": MAYBE_TEXT,
        "created": NUMBER,
        "carried": (bool,),
        "message": (dict,),
    },
    "waiting": {
        "session_id": TEXT,
        "mode": TEXT,
        "message": (dict,),
        "addressed_to": MAYBE_TEXT,
        "created": NUMBER,
    },
}
MARKS = ("pinned", "archived")
"""What may also stand on the first session; always true."""
SCOPE = "scope"
"""What may stand there too: whose conversation it is."""


class Record(NamedTuple):
    """One line of an export: what it is, its fields, and where it stood."""

    line: int
    kind: Kind
    fields: dict[str, Any]


class Ties:
    """What the lines so far have named. A line may only refer to that, never to what the store holds."""

    def __init__(self) -> None:
        self._sessions: dict[str, dict[str, Any]] = {}
        self._last: dict[str, Any] | None = None
        self._all_sessions_named = False
        self._turns: set[str] = set()

    def check(self, record: Record) -> None:
        """Refuse a record that doesn't belong to the one conversation in the file."""
        if record.kind == "session":
            self._continue(record)
            return
        self._all_sessions_named = True
        fields = record.fields
        session = self._sessions.get(fields["session_id"])
        if session is None:
            raise ImportRefused(record.line, f"session {fields['session_id']!r} stands nowhere above")
        unfinished = record.kind == "waiting" or fields.get("state") == "running"
        if unfinished and (session is not self._last or session["ended"] is not None):
            raise ImportRefused(
                record.line, f"nothing runs or waits in session {session['id']!r}: it has ended"
            )
        if record.kind == "turn":
            if fields["generation"] is not None and fields["generation"] > session["generation"]:
                raise ImportRefused(record.line, "its generation is past its session's")
            self._turns.add(fields["id"])
        else:
            self._require_turn(record, fields["turn_id" if record.kind == "message" else "addressed_to"])

    def _require_turn(self, record: Record, turn_id: str | None) -> None:
        if turn_id is not None and turn_id not in self._turns:
            raise ImportRefused(record.line, f"turn {turn_id!r} stands nowhere above")

    def _continue(self, record: Record) -> None:
        fields, last = record.fields, self._last
        if self._all_sessions_named:
            raise ImportRefused(record.line, "the sessions should stand above everything else")
        place = (None, None) if last is None else (last["id"], "continuation")
        if fields["id"] in self._sessions or (fields["parent"], fields["relation"]) != place:
            raise ImportRefused(record.line, "each session should continue the one above it")
        if last is not None and (last["ended"] is None or last["end_reason"] != END_REASON):
            raise ImportRefused(
                record.line, f"session {last['id']!r} goes on but has not ended by {END_REASON}"
            )
        if last is not None and any(mark in fields for mark in MARKS):
            raise ImportRefused(record.line, f"only the first session may be marked as {' or '.join(MARKS)}")
        if last is not None and SCOPE in fields:
            raise ImportRefused(record.line, f"only the first session may have a {SCOPE}")
        self._sessions[fields["id"]] = self._last = fields


def export_lines(tx: Transaction, session_id: str) -> list[str]:
    """The whole conversation a session belongs to, one JSON object a line."""
    ids = lineage(tx, session_id)
    sessions = [asdict(require_session(tx, each)) for each in ids]
    kept = listed_conversation(tx, session_id)
    sessions[0].update(parent=None, relation=None)
    sessions[0].update({mark: True for mark in MARKS if getattr(kept, mark)})
    for place, fields in enumerate(sessions):
        # A continuation has the scope of the session before it.
        if place or fields[SCOPE] == OWNER:
            del fields[SCOPE]
    turns = [asdict(TurnRecord(*row)) for each in ids for row in tx.queries.turns_of_session(session_id=each)]
    known = {turn["id"] for turn in turns}
    lines = [_line(FORMAT)]
    lines += [_line({"session": fields}) for fields in sessions]
    lines += [_line({"turn": fields}) for fields in turns]
    for each in ids:
        for stored in read_messages(tx, each, 0, LARGEST):
            fields = asdict(stored)
            if stored.turn_id not in known:
                fields["turn_id"] = None
            lines.append(_line({"message": fields}))
    for each in ids:
        for waiting in waiting_messages(tx, each):
            fields = {name: getattr(waiting, name) for name in FIELDS["waiting"]}
            if waiting.addressed_to not in known:
                fields["addressed_to"] = None
            lines.append(_line({"waiting": fields}))
    return lines


def _line(value: dict[str, Any]) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except TypeError as cause:
        raise Unreadable(f"a value that should be text is none: {cause}") from cause
    return text if is_storable(text) else json.dumps(value, sort_keys=True, separators=(",", ":"))


def import_lines(engine: Engine, lines: Iterable[str]) -> list[str]:
    """Store an exported conversation, all of it or nothing; returns its session ids, oldest first."""
    records = list(_parse(lines))
    at = [0]

    def work(tx: Transaction) -> list[str]:
        for record in records:
            at[0] = record.line
            _insert(tx, record)
        sessions = [record.fields["id"] for record in records if record.kind == "session"]
        for session_id in sessions:
            tx.queries.set_last_active(id=session_id)
        return sessions

    try:
        return engine.write(Operation("import_conversation", work))
    except ConstraintBroken as cause:
        raise ImportRefused(at[0], f"it doesn't fit what stands before it ({cause})") from cause


def _insert(tx: Transaction, record: Record) -> None:
    fields = record.fields
    match record.kind:
        case "session":
            columns = {name: fields[name] for name in FIELDS["session"]}
            if not tx.queries.import_session(**columns, scope=fields.get(SCOPE, OWNER)):
                raise SessionExists(fields["id"], "; nothing was imported. Delete that conversation first")
            # The sessions that continue this one get its marks from it.
            if "pinned" in fields:
                tx.queries.pin_conversation(root=fields["id"], pinned=1)
            if "archived" in fields:
                tx.queries.archive_conversation(root=fields["id"], archived=1)
        case "turn":
            tx.queries.import_turn(**fields)
        case "message":
            role, content, extra = encode(fields["message"])
            columns = fields | {"role": role, "content": content, "extra": extra}
            columns["carried"] = int(columns["carried"])
            del columns["message"]
            tx.queries.import_message(**columns)
        case "waiting":
            text = to_json(fields["message"])
            tx.queries.import_waiting_message(**(fields | {"message": text}))


def _parse(lines: Iterable[str]) -> Iterator[Record]:
    number, ties = 0, Ties()
    for number, text in enumerate(lines, start=1):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as cause:
            raise ImportRefused(number, f"it is not JSON ({cause})") from cause
        if number == 1:
            if value != FORMAT:
                raise ImportRefused(1, f"it should be {json.dumps(FORMAT)}, the mark of an export")
        else:
            record = _record(number, value)
            ties.check(record)
            yield record
    if number <= 1:
        raise ImportRefused(number, "the file ends before any session")


def _record(number: int, value: object) -> Record:
    if not isinstance(value, dict) or len(value) != 1 or next(iter(value)) not in FIELDS:
        raise ImportRefused(number, f"it should hold one of {', '.join(FIELDS)}")
    [(kind, fields)] = value.items()
    expected = FIELDS[kind]
    marks = MARKS if kind == "session" else ()
    optional = {*marks, SCOPE} if kind == "session" else set()
    if not isinstance(fields, dict) or fields.keys() - optional != expected.keys():
        raise ImportRefused(number, f"a {kind} has the fields {', '.join(expected)}")
    for mark in marks:
        if fields.get(mark, True) is not True:
            raise ImportRefused(number, f"{kind}.{mark} should be true, or not be there")
    for name, kinds in expected.items():
        _check_field(number, f"{kind}.{name}", fields[name], kinds)
    try:
        _check_words(kind, fields)
    except InvalidInput as cause:
        raise ImportRefused(number, str(cause)) from cause
    return Record(number, kind, fields)


def _check_field(number: int, name: str, value: object, kinds: Kinds) -> None:
    # A bool is an int to Python, not to a reader of JSON.
    if type(value) not in kinds:
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ImportRefused(number, f"{name} should be {wanted}, not {value!r:.80}")
    # Far from the engines' limit, so that what counts on from here never reaches it.
    if isinstance(value, int) and not -(2**62) <= value < 2**62:
        raise ImportRefused(number, f"{name} is too large a number")
    if isinstance(value, str) and not is_storable(value):
        raise ImportRefused(number, f"{name} holds characters that can't be stored")


def _check_words(kind: Kind, fields: dict[str, Any]) -> None:
    if kind == "session":
        checked_name("a session id", fields["id"])
        checked_name("a session's source", fields["source"])
        if SCOPE in fields:
            checked_name("a scope", fields[SCOPE])
        if fields["relation"] not in (None, *get_args(Relation)):
            raise InvalidInput(f"relation can't be {fields['relation']!r}")
    if kind == "turn":
        checked_name("a turn id", fields["id"])
    if kind in ("message", "waiting"):
        encode(fields["message"])
    if kind == "waiting":
        # What was said is a record and is kept as it is; what waits is still to be sent.
        check_parts(fields["message"])
    if kind == "waiting" and fields["mode"] not in MODES:
        raise InvalidInput(f"mode must be one of {', '.join(MODES)}, not {fields['mode']!r}")
