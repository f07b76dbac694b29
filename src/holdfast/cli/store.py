"""`holdfast store`: move all conversations to another database, and bring a store's schema up to date."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cyclopts import App

from holdfast.cli.upgrade_view import plan_lines
from holdfast.core.clock import SystemClock
from holdfast.sessions import SessionDB
from holdfast.sessions.upgrading import StoreUpgrade
from holdfast.wiring import load_settings, usual_store

TELL_SECONDS = 1.0

store = App(name="store", help="Move all conversations to another database, or upgrade the store.")


@store.command
def move(source: str, target: str, /) -> None:
    """Move everything from one store to another: sqlite:///PATH or postgresql://HOST/DATABASE, both ways.

    The new store must be empty. The old one refuses writes from now on and goes on to be read. When this is
    interrupted, the same command goes on with it.

    Parameters
    ----------
    source
        The address of the store to move.
    target
        The address of an empty database, or of a file that does not exist yet.

    """
    progress = Progress()
    with _opened(source, create=False) as old, _opened(target, create=True) as new:
        moved = old.move_to(new, progress.tell)
        progress.end()
        rows = sum(each.count for each in moved.values())
        _show(f"moved {old.location} to {new.location}: {rows:,} rows, {moved['messages'].count:,} messages.")
        _show("Every table was read back and has the same rows.")
    _show(
        "Now set store.url (HOLDFAST_STORE_URL) to the new address wherever Holdfast runs. The old store is "
        "kept, and refuses writes; files beside it, such as the built-in memory, stay where they are."
    )


@store.command
def unlock(address: str, /) -> None:
    """Let a store that was moved, or was to be moved, be written again.

    Parameters
    ----------
    address
        The address of the old store.

    """
    with _opened(address, create=False) as db:
        changed = db.unlock()
        _show(f"{db.location} {'can be written again' if changed else 'can be written; nothing was changed'}")


@store.command
def upgrade(address: str = "", /, *, plan: bool = False) -> None:
    """Bring a store's schema up to date, or say what that would do.

    Every start of Holdfast does so too, except for steps that remove what older programs use: those are run
    only here, when nothing else is left to do.

    Parameters
    ----------
    address
        The store; by default the one that the settings name.
    plan
        Change nothing, and say what would be run, what waits meanwhile and which programs may go on.

    """
    settings = load_settings()
    url = address or settings.store.url or f"sqlite:///{usual_store()}"
    upgrading = StoreUpgrade(url, patience=settings.store.busy_timeout_s)
    for line in (
        plan_lines(upgrading.plan(), is_done=False) if plan else plan_lines(upgrading.run(), is_done=True)
    ):
        _show(line)


class Progress:
    """One line on the terminal, or a line each now and again where there is none."""

    def __init__(self) -> None:
        self._clock = SystemClock()
        self._is_terminal = sys.stderr.isatty()
        self._told = -TELL_SECONDS
        self._what = ""

    def tell(self, what: str, done: int, total: int) -> None:
        now = self._clock.monotonic()
        if what == self._what and now - self._told < TELL_SECONDS:
            return
        self._what, self._told = what, now
        if total or what == "search index":
            line = f"{what}: {done:,} of {total:,}" if total else what
            sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
            sys.stderr.flush()

    def end(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")


@contextmanager
def _opened(address: str, *, create: bool) -> Iterator[SessionDB]:
    settings = load_settings().store
    with SessionDB.open(address, patience=settings.busy_timeout_s, create=create) as db:
        yield db


def _show(line: str) -> None:
    sys.stdout.write(f"{line}\n")
