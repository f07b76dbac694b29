"""File changes: which files the tools of a turn changed, and what was there before and after.

A row names contents by their hash; the contents themselves are files (`tools/kept_contents.py`). A row is
stored before its file is changed. Of a command it is known only afterwards what it did: until then the row is
not settled.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.sessions.codec import LARGEST, checked_name, to_json
from holdfast.sessions.contract import Engine, Transaction
from holdfast.sessions.operations import operation
from holdfast.sessions.transcripts import find_session, live_end, root_of
from holdfast.sessions.turns import require_turn


@dataclass(frozen=True, slots=True)
class FileVersion:
    """What is at a path: a file or a link, by the hash of its content and its mode; no hash: nothing."""

    hash: str | None = None
    mode: int | None = None
    """As `stat` gives it, with the kind of the file; None where it is not known."""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change that is about to happen. `after` is None while nobody knows what will be there."""

    path: str
    before: FileVersion
    after: FileVersion | None = None


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A change on record."""

    id: int
    turn_id: str
    root_id: str
    workspace: str
    path: str
    tool: str
    created: int
    undone: int | None
    before: FileVersion
    after: FileVersion | None
    """None: the process died before it was known what a command had done."""


class FileChanges:
    """The file changes of all turns. Synchronous and thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def record(self, turn_id: str, workspace: str, tool: str, changes: Sequence[NewChange]) -> list[int]:
        """Store changes that are about to happen; returns their ids, none for a turn of another store."""
        return self._engine.write(record_file_changes(turn_id, workspace, tool, changes))

    def settle(self, outcomes: Sequence[tuple[int, FileVersion | None]]) -> None:
        """Store what is there now, by the change's id; None: nothing was changed after all."""
        self._engine.write(settle_file_changes(outcomes))

    def mark_undone(self, ids: Sequence[int]) -> None:
        """Record that the files are as they were before these changes."""
        self._engine.write(mark_files_undone(ids))

    def conversation(self, turn_id: str) -> str | None:
        """The first session of the conversation that a turn belongs to; None for an unknown turn."""
        found = self._engine.read(lambda tx: tx.queries.conversation_of_turn(id=turn_id))
        return None if found is None else str(found)

    def turns(self, session_id: str) -> list[str]:
        """The turns that a conversation has; `SessionNotFound` for an unknown one."""
        return self._engine.read(lambda tx: _turns_said(tx, live_end(tx, session_id)))

    def changed_turns(self, session_id: str) -> list[str]:
        """Those of `turns()` that changed files."""

        def work(tx: Transaction) -> list[str]:
            live = live_end(tx, session_id)
            roots = _roots(tx, live)
            found = {
                turn_id for root in roots for (turn_id,) in tx.queries.turns_with_file_changes(root=root)
            }
            # Most conversations change no files: their messages are not looked through.
            return [turn_id for turn_id in _turns_said(tx, live) if turn_id in found] if found else []

        return self._engine.read(work)

    def of_turn(self, turn_id: str) -> list[RecordedChange]:
        """The changes of one turn, oldest first; `TurnNotFound` for an unknown one."""

        def work(tx: Transaction) -> list[RecordedChange]:
            require_turn(tx, turn_id)
            return _of_turn(tx, turn_id)

        return self._engine.read(work)

    def of_conversation(self, session_id: str, *, start: int | None = None) -> list[RecordedChange]:
        """The changes of the turns that a conversation has, oldest first; a branch has those it began with.

        With a `start`, only of the turns that have a message at or after that place of the live session.
        """

        def work(tx: Transaction) -> list[RecordedChange]:
            turns = _turns_said(tx, live_end(tx, session_id), start)
            found = [change for turn_id in turns for change in _of_turn(tx, turn_id)]
            return sorted(found, key=lambda each: each.id)

        return self._engine.read(work)


@operation
def record_file_changes(
    turn_id: str, workspace: str, tool: str, changes: Sequence[NewChange]
) -> Callable[[Transaction], list[int]]:
    """Store changes that are about to happen."""
    checked_name("a tool's name", tool)
    folder = to_json(workspace)
    rows = [(to_json(each.path), each.before, each.after) for each in changes]

    def work(tx: Transaction) -> list[int]:
        ids = [
            tx.queries.record_file_change(
                turn_id=turn_id,
                workspace=folder,
                path=path,
                tool=tool,
                before_hash=before.hash,
                before_mode=before.mode,
                after_hash=None if after is None else after.hash,
                after_mode=None if after is None else after.mode,
                settled=0 if after is None else 1,
            )
            for path, before, after in rows
        ]
        return [int(each) for each in ids if each is not None]

    return work


@operation
def settle_file_changes(
    outcomes: Sequence[tuple[int, FileVersion | None]],
) -> Callable[[Transaction], None]:
    """Store what a command left behind, or drop the rows of what it did not change."""

    def work(tx: Transaction) -> None:
        for change_id, after in outcomes:
            if after is None:
                tx.queries.drop_file_change(id=change_id)
            else:
                tx.queries.settle_file_change(id=change_id, after_hash=after.hash, after_mode=after.mode)

    return work


@operation
def mark_files_undone(ids: Sequence[int]) -> Callable[[Transaction], None]:
    """Record that the files are as they were before these changes."""

    def work(tx: Transaction) -> None:
        for each in ids:
            tx.queries.mark_file_change_undone(id=each)

    return work


def _of_turn(tx: Transaction, turn_id: str) -> list[RecordedChange]:
    return [_from_row(row) for row in tx.queries.file_changes_of_turn(turn_id=turn_id)]


def _turns_said(tx: Transaction, session_id: str, start: int | None = None) -> list[str]:
    """The turns of a session and of those it goes on from, from a place on, oldest first."""
    found: list[str] = []
    here: str | None = session_id
    before = LARGEST
    while here is not None:
        rows = tx.queries.turns_between(session_id=here, start=start or 0, before=before)
        found = [*(row[0] for row in rows), *found]
        session = find_session(tx, here)
        if session is None or session.relation == "delegate":
            break
        if session.relation == "branch":
            # Its copies name no turns; the messages of its parent at the same places do.
            before = min(before, int(tx.queries.carried_count(session_id=here)))
        elif start is not None:
            break  # what a continuation carried along names its turns
        else:
            before = LARGEST
        here = session.parent
    return list(dict.fromkeys(found))


def _roots(tx: Transaction, session_id: str) -> list[str]:
    """The conversation of a session, and those that it branched off."""
    roots: list[str] = []
    here: str | None = session_id
    while here is not None:
        roots.append(root_of(tx, here))
        first = find_session(tx, roots[-1])
        here = first.parent if first is not None and first.relation == "branch" else None
    return roots


def _from_row(row: Sequence[Any]) -> RecordedChange:
    change_id, turn_id, root, workspace, path, tool, created, undone, settled, *versions = row
    return RecordedChange(
        change_id,
        turn_id,
        root,
        json.loads(workspace),
        json.loads(path),
        tool,
        created,
        undone,
        FileVersion(*versions[:2]),
        FileVersion(*versions[2:]) if settled else None,
    )
