"""Stores the conversations of another agent, each in one transaction, and reads every message back.

The ids are made from the other store's, so a second run finds what the first one stored and stores nothing
twice. Imported turns count as committed: memory providers are not given them.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError
from holdfast.sessions.db import SessionDB
from holdfast.sessions.foreign.contract import ForeignConversation, ForeignSession, ForeignStore
from holdfast.sessions.portable import FORMAT
from holdfast.sessions.rotation import END_REASON

Say = Callable[[str], None]


@dataclass(slots=True)
class ImportReport:
    """What became of every conversation and of every message."""

    rows: int
    imported: int = 0
    messages: int = 0
    present: int = 0
    """Conversations that an earlier run imported."""
    refused: list[str] = field(default_factory=list)
    """Conversations that were not stored, each with the reason."""
    wrong: list[str] = field(default_factory=list)
    """Sessions that read back otherwise than they were written."""
    empty: int = 0
    left_out: dict[str, int] = field(default_factory=dict)


def import_conversations(db: SessionDB, store: ForeignStore) -> ImportReport:
    """Import everything that isn't there; what can't be stored is named, and the others go on."""
    report = ImportReport(store.rows, left_out=dict(store.left_out), empty=store.empty)
    report.refused += store.unreadable
    for conversation in store.conversations:
        state = _state(db, conversation)
        if state == "present":
            report.present += 1
        elif state == "changed":
            report.refused.append(
                f"{conversation.name}: an earlier import is in the store and differs from it; it was left "
                "as it is. To import it anew, delete that conversation first"
            )
        else:
            _store(db, conversation, report)
    return report


def _store(db: SessionDB, conversation: ForeignConversation, report: ImportReport) -> None:
    try:
        db.import_session(_lines(conversation))
    except HoldfastError as refused:
        report.refused.append(f"{conversation.name}: {refused}")
        return
    report.imported += 1
    for session in conversation.sessions:
        if _stored(db, session) == _messages(session):
            report.messages += len(session.messages)
        else:
            report.wrong.append(session.id)


def _state(db: SessionDB, conversation: ForeignConversation) -> str:
    """Whether it is `absent`, `present` as it would be imported, or `changed`."""
    found = [_stored(db, session) for session in conversation.sessions]
    if all(messages is None for messages in found):
        return "absent"
    # It may have gone on in Holdfast since then.
    same = all(
        messages is not None and messages[: len(session.messages)] == _messages(session)
        for messages, session in zip(found, conversation.sessions, strict=True)
    )
    return "present" if same else "changed"


def _stored(db: SessionDB, session: ForeignSession) -> list[Message] | None:
    return None if db.get_session(session.id) is None else db.get_messages(session.id)


def _messages(session: ForeignSession) -> list[Message]:
    return [message for _, message in session.messages]


def _lines(conversation: ForeignConversation) -> Iterator[str]:
    """The conversation as an export of Holdfast's own."""
    sessions = conversation.sessions
    turns = {session.id: list(_turns(session)) for session in sessions}
    yield json.dumps(FORMAT)
    for place, session in enumerate(sessions):
        after = sessions[place + 1] if place + 1 < len(sessions) else None
        yield _line(
            "session",
            id=session.id,
            parent=sessions[place - 1].id if place else None,
            relation="continuation" if place else None,
            source=conversation.source,
            title=conversation.title,
            started=session.started,
            ended=session.messages[-1][0] if after else None,
            end_reason=END_REASON if after else None,
            generation=len(turns[session.id]),
            committed_generation=len(turns[session.id]),
        )
    for session in sessions:
        for number, (first, last) in enumerate(turns[session.id], start=1):
            times = session.messages[first][0], session.messages[last][0]
            yield _line(
                "turn",
                id=_turn_id(session, number),
                session_id=session.id,
                state="completed",
                started=times[0],
                ended=max(times),
                reason=None,
                generation=number,
            )
    for session in sessions:
        # What stands before the first user's message is in no turn.
        turn_of = {
            place: _turn_id(session, number)
            for number, (first, last) in enumerate(turns[session.id], start=1)
            for place in range(first, last + 1)
        }
        for place, (created, message) in enumerate(session.messages):
            yield _line(
                "message",
                session_id=session.id,
                seq=place,
                turn_id=turn_of.get(place),
                created=created,
                carried=False,
                message=message,
            )


def _turn_id(session: ForeignSession, number: int) -> str:
    return f"{session.id}-turn-{number}"


def _turns(session: ForeignSession) -> Iterator[tuple[int, int]]:
    """The first and the last message of each turn: from a user's message to the one before the next."""
    starts = [place for place, (_, message) in enumerate(session.messages) if message["role"] == "user"]
    for start, following in zip(starts, [*starts[1:], len(session.messages)], strict=True):
        yield start, following - 1


def _line(kind: str, **fields: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps({kind: fields}, ensure_ascii=False)
