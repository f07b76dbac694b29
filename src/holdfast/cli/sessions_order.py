"""`holdfast sessions rename`, `pin`, `archive`, `delete`: conversations set in order."""

import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.clean_text import one_line
from holdfast.cli.finding import found
from holdfast.cli.printing import show
from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.listing import Listed
from holdfast.wiring import existing_store, forget_outputs, load_settings

Conversation = Annotated[str, Parameter(help="Its id, the end of it, or its number in the list.")]
"""How a command is told which conversation it is about; `found` says which one that is."""
Yes = Annotated[bool, Parameter(negative="")]


def rename(session: Conversation, title: str = "", /) -> None:
    """Give a conversation a title, or without one take it away.

    Parameters
    ----------
    title
        What to call it.

    """
    _change(session, "renamed", lambda db, meant: db.set_title(meant, title or None))


def pin(session: Conversation, /) -> None:
    """Mark a conversation as one to keep at hand; unpin takes that back."""
    _change(session, "pinned", lambda db, meant: db.set_pinned(meant, pinned=True))


def unpin(session: Conversation, /) -> None:
    """Take back that a conversation is pinned."""
    _change(session, "unpinned", lambda db, meant: db.set_pinned(meant, pinned=False))


def archive(session: Conversation, /) -> None:
    """Put a conversation out of sight; unarchive brings it back.

    It stays on record, is found by search and can be gone on with.
    """
    _change(session, "archived", lambda db, meant: db.set_archived(meant, archived=True))


def unarchive(session: str, /) -> None:
    """Put an archived conversation back into the list.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in `holdfast sessions --archived`.

    """
    _change(
        session,
        "back in the list:",
        lambda db, meant: db.set_archived(meant, archived=False),
        archived=True,
    )


def delete(session: Conversation, /, *, yes: Yes = False, force: Yes = False) -> None:
    """Delete a conversation for good.

    All that was said in it goes, and what its tools kept. Branches that left it stay, and so does what
    memory has been told; see `holdfast memory forget`.

    Parameters
    ----------
    yes
        Do it without asking. Needed where no terminal is.
    force
        Delete it although messages wait in it, or memory is still owed some of its turns.

    """
    with existing_store(load_settings()) as db:
        meant = db.listed(found(db, session))
        if not yes and not _agreed(db, meant):
            show("nothing was deleted")
            return
        deleted = db.delete_session(meant.root_id, force=force)
    forget_outputs(deleted.sessions)
    show(f"deleted {_named(meant)}")


def _change(
    session: str, done: str, change: Callable[[SessionDB, str], None], *, archived: bool = False
) -> None:
    with existing_store(load_settings()) as db:
        session_id = found(db, session, archived=archived)
        change(db, session_id)
        show(f"{done} {_named(db.listed(session_id))}")


def _agreed(db: SessionDB, meant: Listed) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("deleting can't be undone; say --yes where no terminal is to ask at")
    messages = sum(db.message_count(each) for each in db.lineage(meant.root_id))
    try:
        answer = input(f"Delete {_named(meant)} with its {messages} messages for good? [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _named(meant: Listed) -> str:
    about = meant.session.title or meant.opening
    return f"{meant.session.id} ({one_line(about, 60)})" if about else meant.session.id
