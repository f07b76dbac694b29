"""`holdfast sessions changes` and `undo`: what a conversation did to files, and taking it back."""

import sys
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.output import show, show_json
from holdfast.cli.session_changes import SessionName, Yes
from holdfast.cli.session_lookup import find_in_store
from holdfast.core.clean_text import clean
from holdfast.core.errors import InvalidInput, SessionBusy
from holdfast.sessions import SessionDB
from holdfast.wiring import existing_store, file_history, load_settings

Json = Annotated[bool, Parameter(name="--json", negative="")]


def changes(session: SessionName, /, *, turn: str | None = None, as_json: Json = False) -> None:
    """Show what a conversation did to files, as a diff.

    Covered are the agent's own file tools, and of a command the files of the workspace that it names. What
    else a command changes is not recorded.

    Parameters
    ----------
    turn
        Only what this turn did: its id, as --json shows it, or `last`.
    as_json
        Print JSON.

    """
    settings = load_settings()
    with existing_store(settings) as db:
        session_id = find_in_store(db, session)
        found = file_history(settings, db).changes(session_id, _turn(db, session_id, turn))
    if as_json:
        show_json([asdict(each) for each in found])
        return
    for each in found:
        state = (
            " (taken back)"
            if each.undone
            else f" (can't be taken back: {each.problem})"
            if each.problem
            else ""
        )
        show(f"{each.kind} {each.path}{state}")
        if each.diff:
            sys.stdout.write(clean(each.diff) + "\n")
        elif each.note:
            show(f"  {each.note}")
    if not found:
        show("No change of a file is on record.")


def undo_files(session: SessionName, /, *, turn: str | None = None, yes: Yes = False) -> None:
    """Put files back as they were before a conversation or a turn.

    A file that was changed since is left as it is. What was said stays. `/undo` in a chat takes back both.

    Parameters
    ----------
    turn
        Only what this turn did: its id, or `last`.
    yes
        Do it without asking. Needed without a terminal.

    """
    settings = load_settings()
    with existing_store(settings) as db:
        session_id = find_in_store(db, session)
        if db.session_holder(session_id) is not None:
            raise SessionBusy(session_id, "another process runs it", wanted="have its files put back")
        history, turn_id = file_history(settings, db), _turn(db, session_id, turn)
        meant = [each for each in history.changes(session_id, turn_id) if not each.undone]
        if meant and not yes and not _agreed([each.path for each in meant]):
            show("nothing was changed")
            return
        done = history.undo(session_id, turn_id)
    for each in done:
        show(f"{each.outcome} {each.path}{f': {each.reason}' if each.reason else ''}")
    if not done:
        show("There is nothing to take back.")


def _turn(db: SessionDB, session_id: str, wanted: str | None) -> str | None:
    if wanted is None:
        return None
    turns = db.file_changes.turns(session_id)
    if wanted == "last" and turns:
        return turns[-1]
    if wanted not in turns:
        raise InvalidInput(f"this conversation has no turn {wanted!r}")
    return wanted


def _agreed(paths: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("files would be overwritten; without a terminal, confirm it with --yes")
    for each in paths:
        show(f"  {each}")
    try:
        return input(f"Put {len(paths)} files back? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
