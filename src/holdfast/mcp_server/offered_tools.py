"""What other agents may do with Holdfast, as MCP tools and resources on one host.

Each group of tools is there only when the settings offer it. Everything is the owner's: conversations of
other people, from chat platforms, are neither found nor read.
"""

import json
from collections.abc import Collection, Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from holdfast.core.error_text import error_words
from holdfast.core.errors import HoldfastError, SessionNotFound
from holdfast.core.events import ModelRetrying, ToolStarted, TurnStarted
from holdfast.core.ids import id_for, new_id
from holdfast.core.mcp_settings import McpOffered
from holdfast.host.turn_handle import AskOptions, TurnHandle
from holdfast.memory.forget_selection import ForgetQuery
from holdfast.sessions import Filters
from holdfast.sessions.contract import API_SOURCE, OWNER, SECOND
from holdfast.sessions.markdown_export import messages_as_markdown

if TYPE_CHECKING:
    from holdfast.host import SessionHost

INSTRUCTIONS = (
    "Holdfast's past conversations and memory. Search before you ask the person what they have said already."
)
SOURCE = "mcp"
READS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
CHANGES = ToolAnnotations(read_only_hint=False, open_world_hint=False)
DESTROYS = ToolAnnotations(read_only_hint=False, destructive_hint=True, open_world_hint=False)
Many = Annotated[int, Field(ge=1, le=100)]
Text = Annotated[str, Field(min_length=1)]


def build_server(host: "SessionHost", offer: Collection[McpOffered], version: str) -> MCPServer:
    """The server with the tools that are offered."""
    server = MCPServer("holdfast", instructions=INSTRUCTIONS, version=version, log_level="WARNING")
    if "sessions" in offer:
        _offer_sessions(server, PastConversations(host))
    if "memory" in offer:
        _offer_memory(server, host)
    if "remember" in offer:
        _offer_remember(server, host)
    if "forget" in offer:
        _offer_forget(server, host)
    if "ask" in offer:
        _offer_ask(server, host)
    return server


class PastConversations:
    """The owner's conversations, as text for other agents."""

    def __init__(self, host: "SessionHost") -> None:
        self._host = host

    async def search(self, query: str, limit: int) -> list[dict[str, object]]:
        filters = Filters(scope=OWNER, not_source=API_SOURCE)
        hits = await self._host.records.search(query, filters=filters, limit=limit)
        return [
            {
                "session": hit.session_id,
                "title": hit.title or "",
                "number": hit.seq,
                "role": hit.role,
                "created": hit.created // SECOND,
                "snippet": " ".join("".join(part.text for part in hit.snippet).split()),
            }
            for hit in hits
        ]

    async def recent(self, limit: int) -> list[dict[str, object]]:
        listed = await self._host.records.sessions(api=False, scope=OWNER, limit=limit)
        return [
            {"session": each.session.id, "title": each.session.title or "", "opening": each.opening[:200]}
            for each in listed
        ]

    async def read(self, session: str, after: int, limit: int) -> str:
        await self.require_owners(session)
        stored = await self._host.records.messages(session, after=after, limit=limit, exact=True)
        return "\n".join(messages_as_markdown(stored)) or "(there is nothing more)"

    async def transcript(self, session: str) -> str:
        await self.require_owners(session)
        return "\n".join(await self._host.records.export(session, as_markdown=True))

    async def require_owners(self, session: str) -> None:
        lineage = await self._host.records.lineage(session)
        if not lineage or any(each.scope != OWNER for each in lineage):
            raise SessionNotFound(session)


@contextmanager
def problems_told() -> Iterator[None]:
    """Tell the other agent what Holdfast refuses, in its words."""
    try:
        yield
    except HoldfastError as problem:
        raise ToolError(error_words(problem)) from problem


def _offer_sessions(server: MCPServer, past: PastConversations) -> None:
    @server.tool(annotations=READS)
    async def search_sessions(query: Text, limit: Many = 10) -> list[dict[str, object]]:
        """Search all past conversations with Holdfast for messages that hold every word of the query."""
        with problems_told():
            return await past.search(query, limit)

    @server.tool(annotations=READS)
    async def list_sessions(limit: Many = 20) -> list[dict[str, object]]:
        """List past conversations with Holdfast, the one last active first."""
        with problems_told():
            return await past.recent(limit)

    @server.tool(annotations=READS)
    async def read_session(session: Text, after: int = -1, limit: Many = 50) -> str:
        """Read a past conversation by the session that search_sessions gave, after a message's number."""
        with problems_told():
            return await past.read(session, after, limit)

    @server.resource("holdfast://sessions", mime_type="application/json")
    async def recent_sessions() -> str:
        """The past conversations, the one last active first."""
        return json.dumps(await past.recent(100), ensure_ascii=False)

    @server.resource("holdfast://sessions/{session}", mime_type="text/markdown")
    async def transcript(session: str) -> str:
        """A whole conversation as Markdown."""
        return await past.transcript(session)


def _offer_memory(server: MCPServer, host: "SessionHost") -> None:
    @server.tool(annotations=READS)
    async def recall(query: Text, limit: Many = 10) -> dict[str, object]:
        """Search what Holdfast remembers: notes, and what was said in all conversations."""
        with problems_told():
            result = await host.memory.search(query, limit=limit)
        found = [
            {"provider": each.provider, "id": each.id, "kind": each.kind, "text": each.text}
            for each in result.found
        ]
        return {"found": found, "failed": dict(result.failed)}


def _offer_remember(server: MCPServer, host: "SessionHost") -> None:
    @server.tool(annotations=CHANGES)
    async def remember(text: Text) -> str:
        """Save a note that Holdfast remembers in every later conversation."""
        with problems_told():
            return await host.memory.remember(text)


def _offer_forget(server: MCPServer, host: "SessionHost") -> None:
    @server.tool(annotations=DESTROYS)
    async def forget(id: Text, provider: str = "") -> str:  # noqa: A002 - the word that recall uses
        """Delete one memory for good, by the id and the provider that recall gave."""
        with problems_told():
            done = await host.memory.forget(ForgetQuery(memories=((provider, id),)))
        states = ", ".join(f"{each.provider}: {each.state}" for each in done.providers)
        return f"forgetting {done.id}: {states}"


def _offer_ask(server: MCPServer, host: "SessionHost") -> None:
    @server.tool(annotations=CHANGES)
    async def ask(question: Text, ctx: Context, session: str = "", key: str = "") -> dict[str, str]:
        """Ask Holdfast, and wait for its answer. It works with its own tools, memory and conversations.

        With a session the conversation goes on. The same key again does not ask twice: it gives the answer of
        the first call, also after a crash. What needs a person's approval is refused.
        """
        with problems_told():
            if session:
                await PastConversations(host).require_owners(session)
            options = AskOptions(
                key=key or None, source=SOURCE, scope=OWNER, when_asked="refuse", new=not session and not key
            )
            where = session or (id_for("mcp ask", key) if key else new_id())
            turn = await host.start_turn(where, question, options)
            try:
                await _report(turn, ctx)
            except BaseException:
                turn.abandon()
                raise
            result = await turn.result()
        state = "interrupted" if result.interrupted else "completed"
        return {"answer": result.final_response, "session": result.session_id, "state": state}


async def _report(turn: TurnHandle, ctx: Context) -> None:
    """Follow a turn to its end, and tell the client how far it is."""
    steps = 0
    async with aclosing(turn.events()) as events:
        async for event in events:
            if isinstance(event, TurnStarted | ToolStarted | ModelRetrying):
                steps += 1
                await ctx.report_progress(steps, message=_told(event))


def _told(event: TurnStarted | ToolStarted | ModelRetrying) -> str:
    match event:
        case ToolStarted():
            return f"uses {event.name}"
        case ModelRetrying():
            return "the model is asked again"
        case _:
            return "the turn has begun"
