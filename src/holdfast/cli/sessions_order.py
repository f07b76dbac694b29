"""`holdfast sessions rename`, `pin`, `archive`, `delete`: conversations set in order."""

import sys
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.clean_text import one_line
from holdfast.cli.finding import found
from holdfast.cli.printing import show
from holdfast.core.errors import InvalidInput
from holdfast.sessions import SessionDB
from holdfast.sessions.listing import Listed
from holdfast.wiring import existing_store, forget_outputs, load_settings

Yes = Annotated[bool, Parameter(negative="")]


def rename(session: str, title: str = "", /) -> None:
    """Give a conversation a title, or without one take it away.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in the list.
    title
        What to call it.

    """
    with existing_store(load_settings()) as db:
        session_id = found(db, session)
        db.set_title(session_id, title or None)
        show(f"renamed {_named(db.listed(session_id))}")


def pin(session: str, /) -> None:
    """Mark a conversation as one to keep at hand; unpin takes that back.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in the list.

    """
    with existing_store(load_settings()) as db:
        session_id = found(db, session)
        db.set_pinned(session_id, pinned=True)
        show(f"pinned {_named(db.listed(session_id))}")


def unpin(session: str, /) -> None:
    """Take back that a conversation is pinned.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in the list.

    """
    with existing_store(load_settings()) as db:
        session_id = found(db, session)
        db.set_pinned(session_id, pinned=False)
        show(f"unpinned {_named(db.listed(session_id))}")


def archive(session: str, /) -> None:
    """Put a conversation out of sight; unarchive brings it back.

    It stays on record, is found by search and can be gone on with.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in the list.

    """
    with existing_store(load_settings()) as db:
        session_id = found(db, session)
        db.set_archived(session_id, archived=True)
        show(f"archived {_named(db.listed(session_id))}")


def unarchive(session: str, /) -> None:
    """Put an archived conversation back into the list.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in `holdfast sessions --archived`.

    """
    with existing_store(load_settings()) as db:
        session_id = found(db, session, archived=True)
        db.set_archived(session_id, archived=False)
        show(f"back in the list: {_named(db.listed(session_id))}")


def delete(session: str, /, *, yes: Yes = False, force: Yes = False) -> None:
    """Delete a conversation for good.

    All that was said in it goes, and what its tools kept. Branches that left it stay, and so does what
    memory has been told; see `holdfast memory forget`.

    Parameters
    ----------
    session
        Its id, the end of it, or its number in the list.
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
