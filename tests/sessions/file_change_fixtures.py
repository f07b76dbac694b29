"""Changes of files as the tests of the store want them."""

from collections.abc import Callable

from holdfast.sessions import SessionDB
from holdfast.sessions.file_changes import FileVersion, NewChange

Ask = Callable[[SessionDB], object]


def record_change(turn_id: str) -> Ask:
    change = NewChange("/w/a", FileVersion("h", 0o100644), FileVersion("i"))
    return lambda db: db.file_changes.record(turn_id, "/w", "edit_file", [change])


def _unsettled(db: SessionDB, turn_id: str) -> int:
    change = NewChange("/w/a", FileVersion())
    [change_id] = db.file_changes.record(turn_id, "/w", "run_command", [change])
    return change_id


def settle_change(db: SessionDB, turn_id: str) -> Ask:
    change_id = _unsettled(db, turn_id)
    return lambda db: db.file_changes.settle([(change_id, FileVersion("h", 0o100644))])


def undo_change(db: SessionDB, turn_id: str) -> Ask:
    change_id = _unsettled(db, turn_id)
    return lambda db: db.file_changes.mark_undone([change_id])
