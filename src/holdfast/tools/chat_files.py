"""`send_file`: sends a file of the workspace to the chat in which a conversation goes on.

The file is copied first, so that what arrives is what the agent meant, whatever it does to the file later.
The post is a row of the ledger with the key of the call; a gateway sends it, and removes the copy when the
platform has it.
"""

import hashlib
from pathlib import Path
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import ToolFailed
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_events import ChatRoom
from holdfast.sessions.chat_posts import NewPost
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool
from holdfast.tools.resolved_path import ResolvedPath, read_bytes, readable_path, resolve_path

OUTGOING = "chat-outgoing"
MAX_SENT_BYTES = 10_000_000
"""What the strictest of the built-in platforms takes."""


class ChatFiles:
    """The tool for one store. `folder` keeps the copies until they are sent."""

    def __init__(self, db: SessionDB, folder: Path) -> None:
        self._db = db
        self._folder = folder / OUTGOING

    def tool(self) -> Tool:
        return tool(self.send_file)

    async def send_file(
        self,
        path: str,
        context: ToolContext,
        caption: Annotated[str, Field(max_length=1000)] = "",
    ) -> str:
        """Send a file of the workspace to the person, in the chat of this conversation.

        Args:
            path: the file, of at most 10 MB
            caption: words to be shown with it

        """
        if not resolve_path(context.workspace, path).inside:
            raise ToolFailed(f"{path!r} is outside the workspace; only files in it can be sent")
        target = await readable_path(context, path)
        name = await context.off_loop(self._post, context, target, caption)
        return f"{name} is on its way to the chat"

    def _post(self, context: ToolContext, target: ResolvedPath, caption: str) -> str:
        room = room_of(self._db, context.session_id)
        if room is None:
            raise ToolFailed("this conversation is in no chat now, so the file was not sent")
        content, _ = read_bytes(target, MAX_SENT_BYTES)
        key = f"file:{context.turn_id}:{context.call_id}"
        copy = self._folder / hashlib.sha256(key.encode()).hexdigest()[:24] / target.path.name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.write_bytes(content)
        self._db.chat_posts.put(
            NewPost(
                key,
                room.id,
                {"text": caption, "file": str(copy)},
                kind="file",
                session_id=context.session_id,
                turn_id=context.turn_id,
            )
        )
        return target.path.name


def remove_copy(file: str) -> None:
    """Remove the copy of a file that was sent; any other file is left alone. Blocking."""
    copy = Path(file)
    if copy.parent.parent.name == OUTGOING:
        copy.unlink(missing_ok=True)
        copy.parent.rmdir()


def room_of(db: SessionDB, session_id: str) -> ChatRoom | None:
    """The chat in which a session's conversation goes on, if it does. Blocking."""
    root = db.sessions.root(conversation_of(db, session_id))
    return next(iter(db.chat_events.rooms_of(root)), None)


def conversation_of(db: SessionDB, session_id: str) -> str:
    """The conversation that the person sees: a subagent's caller. Blocking."""
    while True:
        root = db.get_session(db.sessions.root(session_id))
        if root is None or root.relation != "delegate" or root.parent is None:
            return session_id
        session_id = root.parent
