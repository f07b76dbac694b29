"""`holdfast sessions`: the stored conversations."""

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.output import show, show_json, width, write_lines
from holdfast.cli.session_changes import SessionName, archive, delete, pin, rename, unarchive, unpin
from holdfast.cli.session_files import changes, undo_files
from holdfast.cli.session_lookup import day, find_in_store, listed_line, lives_in
from holdfast.core.clean_text import clean, one_line
from holdfast.core.errors import InvalidInput
from holdfast.sessions import Filters
from holdfast.sessions.contract import API_SOURCE
from holdfast.sessions.markdown_export import is_markdown, markdown_lines
from holdfast.wiring import existing_store, load_settings, open_store

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]

sessions = App(name="sessions", help="List, show, search, move, set in order and delete conversations.")


@sessions.default
def list_sessions(
    *, archived: Flag = False, api: Flag = False, limit: int = 20, as_json: Json = False
) -> None:
    """List conversations, the most recent first.

    Parameters
    ----------
    archived
        List only archived ones.
    api
        List what clients of the API began unnamed.
    limit
        How many.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        listed = db.conversations.list(api=api, archived=archived, limit=limit)
        places = db.chat_places.of(each.root_id for each in listed)
    chats = {each.root_id: lives_in(places.get(each.root_id, ())) for each in listed}
    if as_json:
        show_json(
            [
                {
                    "id": each.session.id,
                    "title": each.session.title,
                    "scope": each.session.scope,
                    "opening": each.opening,
                    "messages": each.messages,
                    "last_active": each.last_active,
                    "ended": each.session.end_reason,
                    "pinned": each.pinned,
                    "archived": each.archived,
                    "chat": chats[each.root_id] or None,
                }
                for each in listed
            ]
        )
        return
    for number, each in enumerate(listed, start=1):
        # Numbers name conversations of the list without them; these are named by their ids.
        show(listed_line(None if api else number, each, width(), chats[each.root_id]))
    if not listed:
        show("No conversation is archived." if archived else "There are no conversations yet.")


sessions.command(list_sessions, name="list", show=False)  # it is what the command does without a word
for change in (rename, pin, archive, delete, changes):
    sessions.command(change)
sessions.command(undo_files, name="undo-files")
for back in (unpin, unarchive):
    sessions.command(
        back, show=False
    )  # the help of pin and archive names them, so that the list fits a screen


@sessions.command(name="show")
def show_session(session: SessionName, /) -> None:
    """Print a conversation."""
    with existing_store(load_settings()) as db:
        lineage = db.sessions.lineage(find_in_store(db, session))
        if where := lives_in(db.chat_places.of(lineage[:1]).get(lineage[0], ())):
            show(f"[{where}]")
        for session_id in lineage:
            for stored in db.sessions.read(session_id):
                if stored.carried:
                    continue
                content = stored.message.get("content")
                text = content if isinstance(content, str) else "" if content is None else str(content)
                calls = ", ".join(call["function"]["name"] for call in stored.message.get("tool_calls") or ())
                head = f"[{day(stored.created)}] {stored.message['role']}"
                show(f"{head} calls {calls}: {text}" if calls else f"{head}: {text}")


@sessions.command
def search(*words: str, api: Flag = False, limit: int = 20) -> None:
    """Search all conversations for messages with every word.

    Parameters
    ----------
    words
        What to look for.
    api
        Search what clients of the API began unnamed, and nothing else.
    limit
        How many messages at most.

    """
    filters = Filters(sources=(API_SOURCE,)) if api else Filters(not_source=API_SOURCE)
    with existing_store(load_settings()) as db:
        hits = db.search(" ".join(words), filters=filters, limit=limit)
    for hit in hits:
        text = "".join(part.text for part in hit.snippet)
        show(one_line(f"…{hit.session_id[-8:]} {day(hit.created)} {hit.role}: {clean(text)}", width()))
    if not hits:
        show("Nothing was found.")


@sessions.command
def resume(session: SessionName, /) -> None:
    """Go on with a conversation: the same as `holdfast chat --session`."""
    from holdfast.cli.chat import chat

    chat(session=session)


@sessions.command
def export(session: SessionName, target: Path | None = None, /) -> None:
    """Write a conversation to a file, or as JSON to the screen.

    Parameters
    ----------
    target
        The file to write; it must not exist yet. A name that ends in .md gets Markdown, for people to read.

    """
    with existing_store(load_settings()) as db:
        found = find_in_store(db, session)
        as_markdown = target is not None and is_markdown(target.name)
        lines = markdown_lines(db, found) if as_markdown else db.export_session(found)
    if target is None:
        # Lines of JSON hold no raw control characters.
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    show(f"written to {write_lines(target, lines)}")


@sessions.command(name="import")
def import_session(source: Path | None = None, /) -> None:
    """Read an exported conversation, all or nothing.

    Parameters
    ----------
    source
        The file; standard input without one.

    """
    try:
        text = sys.stdin.read() if source is None else source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidInput(f"{source or 'standard input'} can't be read: {cause}") from cause
    with open_store(load_settings()) as db:
        ids = db.import_session(line for line in text.split("\n") if line.strip())
    show(f"imported {ids[-1]}")


@sessions.command
def end(session: SessionName, /) -> None:
    """End a conversation. Its messages are kept."""
    with existing_store(load_settings()) as db:
        session_id = db.sessions.live_end(find_in_store(db, session))
        db.sessions.end(session_id, "ended by the person")
    show(f"ended {session_id}")
