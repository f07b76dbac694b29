"""Opens the session store that the settings name."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.process import ExitWatchdog
from holdfast.sessions import SessionDB
from holdfast.wiring.folders import data_folder

if TYPE_CHECKING:
    from holdfast.tools.file_history import FileHistory


def has_store(settings: Settings) -> bool:
    """Whether there is a store: the settings name one, or the default file exists."""
    return bool(settings.store.url) or usual_store().exists()


def usual_store() -> Path:
    """Where the store is unless the settings name another."""
    return data_folder() / "holdfast.db"


def open_store(settings: Settings, *, create: bool = True) -> SessionDB:
    """Open the session store that the settings name; `create=False` refuses to create a new one."""
    url = settings.store.url or f"sqlite:///{usual_store()}"
    return SessionDB.open(
        url,
        patience=settings.store.busy_timeout_s,
        create=create,
        connections=settings.store.connections,
    )


@contextmanager
def existing_store(settings: Settings) -> Iterator[SessionDB]:
    """Open the store for one command. A watchdog makes sure that closing it can't hang.

    A store that the settings name must exist. Before the first conversation an empty one takes its place.
    """
    db = open_store(settings, create=False) if has_store(settings) else SessionDB(":memory:")
    try:
        yield db
    finally:
        watchdog = exit_watchdog(settings)
        watchdog.arm(lambda: f"closing {db.location}")
        db.close()
        watchdog.disarm()


def exit_watchdog(settings: Settings) -> ExitWatchdog:
    """The watchdog that ends the process when clean-up hangs."""
    return ExitWatchdog(settings.exit.watchdog_s, clock=SystemClock())


def forget_outputs(session_ids: Iterable[str]) -> None:
    """Remove the stored tool outputs of deleted sessions, and the contents of files that they changed."""
    from holdfast.tools.kept_contents import FILE_HISTORY, KeptContents
    from holdfast.tools.output import OUTPUTS, ResultBudget

    outputs = ResultBudget(data_folder() / OUTPUTS)
    contents = KeptContents(data_folder() / FILE_HISTORY, 0)
    for session_id in session_ids:
        outputs.forget(session_id)
        contents.forget(session_id)


def file_history(settings: Settings, db: SessionDB) -> "FileHistory":
    """What tools changed in files, for commands that run no host."""
    from holdfast.tools.file_history import FileHistory
    from holdfast.tools.kept_contents import FILE_HISTORY, MEGABYTE, KeptContents

    kept = KeptContents(data_folder() / FILE_HISTORY, settings.tools.undo_mb * MEGABYTE)
    return FileHistory(db, kept)
