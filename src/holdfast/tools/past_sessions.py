"""The tools that search past conversations and read them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from holdfast.core.contract import Message
from holdfast.core.errors import ToolFailed
from holdfast.sessions import Filters, SessionDB
from holdfast.sessions.contract import API_SOURCE, SECOND, SearchHit, StoredMessage
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool

MAX_MESSAGE_LENGTH = 4000


class PastSessions:
    """Past conversations, as tools for an agent."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db

    def tools(self) -> list[Tool]:
        reading = tool(changes=False)
        return [reading(self.search_sessions), reading(self.read_session)]

    def search_sessions(
        self,
        query: Annotated[str, Field(min_length=1)],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=50)] = 10,
    ) -> str:
        """Search all past conversations for messages that hold every word of the query.

        Gives for each its session, its number in it and a snippet; read around it with read_session.

        Args:
            query: words, or a "quoted phrase"
            limit: how many at most

        """
        hits = self._db.search(
            query, filters=Filters(scope=context.scope, not_source=API_SOURCE), limit=limit
        )
        return "\n".join(_hit(each) for each in hits) or "nothing found"

    def read_session(
        self,
        session: str,
        context: ToolContext,
        number: Annotated[int, Field(ge=0)] = 0,
        around: Annotated[int, Field(ge=0, le=50)] = 5,
    ) -> str:
        """Read a part of a past conversation.

        Args:
            session: the session's id, as search_sessions gives it
            number: the message to read around
            around: how many messages before and after it

        """
        known = self._db.get_session(session)
        if known is None or known.scope != context.scope:
            raise ToolFailed(f"there is no session {session!r}")
        start = max(0, number - around)
        found = self._db.sessions.read(session, start=start, limit=number + around + 1 - start)
        if not found:
            raise ToolFailed(f"session {session!r} has no message {number}")
        return "\n\n".join(_message(each) for each in found)


def _day(created: int) -> str:
    return datetime.fromtimestamp(created / SECOND, UTC).strftime("%Y-%m-%d %H:%M")


def _hit(hit: SearchHit) -> str:
    snippet = "".join(f"**{part.text}**" if part.match else part.text for part in hit.snippet)
    title = f" ({hit.title})" if hit.title else ""
    where = f"session {hit.session_id}{title}, number {hit.seq}, {_day(hit.created)}, {hit.role}"
    return f"{where}: {' '.join(snippet.split())}"


def _message(stored: StoredMessage) -> str:
    text = "\n".join(_texts(stored.message)).strip()
    if len(text) > MAX_MESSAGE_LENGTH:
        text = f"{text[:MAX_MESSAGE_LENGTH]} [… {len(text) - MAX_MESSAGE_LENGTH} more characters]"
    return f"[{stored.seq}, {_day(stored.created)}, {stored.message['role']}]\n{text or '(no text)'}"


def _texts(message: Message) -> Iterable[str]:
    content = message.get("content")
    if isinstance(content, str):
        yield content
    else:
        for part in content or ():
            yield str(part["text"]) if "text" in part else f"({part.get('type', 'part')})"
    for call in message.get("tool_calls") or ():
        yield f"(called {call['function']['name']} with {call['function']['arguments']})"
