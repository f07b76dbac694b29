"""`holdfast sessions rename`, `pin`, `archive` and `delete`."""

import sys
from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.memory_forget import forget_conversation
from holdfast.cli.output import show
from holdfast.cli.session_lookup import find_in_store
from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput, SessionBusy
from holdfast.sessions import SessionDB
from holdfast.sessions.conversation_list import ListedConversation
from holdfast.wiring import existing_store, forget_outputs, load_settings

SessionName = Annotated[str, Parameter(help="Its id, the end of it, or its number in the list.")]
"""The argument of a command that names a conversation; `find_in_store` finds it."""
Yes = Annotated[bool, Parameter(negative="")]


def rename(session: SessionName, title: str = "", /) -> None:
    """Give a conversation a title; without one, remove the title.

    Parameters
    ----------
    title
        What to call it.

    """
    _change(session, "renamed", lambda db, meant: db.conversations.set_title(meant, title or None))


def pin(session: SessionName, /) -> None:
    """Keep a conversation at the top of the list; unpin undoes it."""
    _change(session, "pinned", lambda db, meant: db.conversations.set_pinned(meant, pinned=True))


def unpin(session: SessionName, /) -> None:
    """Undo pin."""
    _change(session, "unpinned", lambda db, meant: db.conversations.set_pinned(meant, pinned=False))


def archive(session: SessionName, /) -> None:
    """Remove a conversation from the list; unarchive puts it back.

    It is kept, search finds it, and it can be resumed.
    """
    _change(session, "archived", lambda db, meant: db.conversations.set_archived(meant, archived=True))


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
        lambda db, meant: db.conversations.set_archived(meant, archived=False),
        archived=True,
    )


def delete(
    session: SessionName, /, *, yes: Yes = False, force: Yes = False, forget_memory: bool | None = None
) -> None:
    """Delete a conversation for good.

    Its messages and the kept outputs of its tools are deleted. Its branches stay. What memory was told of it
    stays too, unless memory is to forget it as well: on a terminal you are asked.

    Parameters
    ----------
    yes
        Delete without asking. Needed without a terminal.
    force
        Delete it even if messages wait in it or deliveries to memory are owed.
    forget_memory
        Have every memory provider forget it as well; `--no-forget-memory` does not ask.

    """
    with existing_store(load_settings()) as db:
        meant = db.conversations.find(find_in_store(db, session))
        if not yes and not _agreed(db, meant):
            show("nothing was deleted")
            return
        if forget_memory is None:
            forget_memory = not yes and _confirmed("Shall memory forget it as well? [y/N] ")
        if forget_memory:
            _refuse_busy(db, meant.root_id, force=force)
            forget_conversation(db, meant.root_id)
        deleted = db.delete_session(meant.root_id, force=force)
    forget_outputs(deleted.sessions)
    show(f"deleted {_named(meant)}")


def _change(
    session: str, done: str, change: Callable[[SessionDB, str], None], *, archived: bool = False
) -> None:
    with existing_store(load_settings()) as db:
        session_id = find_in_store(db, session, archived=archived)
        change(db, session_id)
        show(f"{done} {_named(db.conversations.find(session_id))}")


def _agreed(db: SessionDB, meant: ListedConversation) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("deleting can't be undone; without a terminal, confirm it with --yes")
    messages = sum(db.sessions.message_count(each) for each in db.sessions.lineage(meant.root_id))
    return _confirmed(f"Delete {_named(meant)} with its {messages} messages for good? [y/N] ")


def _confirmed(question: str) -> bool:
    try:
        answer = input(question)
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _refuse_busy(db: SessionDB, root_id: str, *, force: bool) -> None:
    """A conversation that can't be deleted now must not be forgotten either."""
    if db.session_holder(root_id) is not None:
        raise SessionBusy(root_id, "another process runs it", wanted="be deleted")
    waiting = len(db.inbox.waiting(db.sessions.live_end(root_id)))
    if waiting and not force:
        raise SessionBusy(root_id, f"{waiting} messages wait in its inbox", wanted="be deleted")


def _named(meant: ListedConversation) -> str:
    about = meant.session.title or meant.opening
    return f"{meant.session.id} ({one_line(about, 60)})" if about else meant.session.id
