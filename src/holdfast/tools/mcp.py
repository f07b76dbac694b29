"""The tools of MCP servers, with names like `server__tool`. `mcp_connection.py` connects to a server.

A server that can't be used is reported by its name and left out. When a server ends during a call, the call
fails, and the next call starts the server again.
"""

import asyncio
import hashlib
import importlib
import json
import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import ToolFailed, ToolInvalid
from holdfast.core.messages import storable
from holdfast.core.settings import McpServerSettings
from holdfast.tools.contract import ApprovalRequest, OffLoop, Tool, ToolContext, ToolResult, refusal
from holdfast.tools.mcp_connection import McpConnection

if TYPE_CHECKING:
    from mcp_types import CallToolResult
    from mcp_types import Tool as McpTool

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 4000
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class McpServers:
    """The MCP servers of one agent. Used on the loop's thread only."""

    def __init__(self, servers: Sequence[McpServerSettings], folder: Path) -> None:
        self._servers = [McpServer(each, folder) for each in servers]

    async def open(self, off_loop: OffLoop) -> tuple[list[Tool], list[str]]:
        """Start all servers at the same time.

        Returns their tools, and the problems of servers that failed.
        """
        if not self._servers:
            return [], []
        # To import the SDK takes a second, and must not block the event loop.
        await off_loop(importlib.import_module, "mcp")
        opened = await asyncio.gather(*(each.tools() for each in self._servers), return_exceptions=True)
        tools: dict[str, Tool] = {}
        problems: list[str] = []
        for server, outcome in zip(self._servers, opened, strict=True):
            if isinstance(outcome, ToolInvalid):
                problems.append(f"the MCP server {server.name} is left out: {outcome.problem}")
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                problems += _add(tools, server.name, outcome)
        return list(tools.values()), problems

    async def close(self) -> None:
        """Close all servers. It may be called again."""
        await asyncio.gather(*(each.close() for each in self._servers))


def _add(tools: dict[str, Tool], server: str, found: Iterable[Tool]) -> list[str]:
    problems = []
    for each in found:
        if each.name in tools:
            problems.append(f"a tool of the MCP server {server} is left out: {each.name} is there already")
        else:
            tools[each.name] = each
    return problems


class McpServer:
    """One server. A lost connection is replaced by a new one."""

    def __init__(self, settings: McpServerSettings, folder: Path) -> None:
        self.name = settings.name
        self._settings = settings
        self._folder = folder
        self._connection: McpConnection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def tools(self) -> list[Tool]:
        """Connect and list the server's tools."""
        _, found = await self._connected().client()
        return [self._tool(each) for each in found]

    async def call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Call a tool. A server that has ended is started again first."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            if message:
                context.say(storable(message) + "\n")

        connection = self._connected()
        try:
            client, _ = await connection.client()
            async with asyncio.timeout(self._settings.seconds):
                return as_result(await client.call_tool(name, arguments, progress_callback=on_progress))
        except ToolInvalid as cause:
            self._drop(connection)
            raise ToolFailed(f"the MCP server {self.name} can't be used: {cause.problem}") from cause
        except TimeoutError:
            raise ToolFailed(f"{self.name} took more than {self._settings.seconds:g} s for {name}") from None
        except MCPError as cause:
            lost = {CONNECTION_CLOSED, *((INTERNAL_ERROR, INVALID_REQUEST) if self._settings.url else ())}
            if cause.code in lost:
                self._drop(connection)
            if cause.code == CONNECTION_CLOSED:
                raise self._ended(name, cause) from cause
            return ToolResult(storable(f"{self.name} refused the call: {cause.message}"), ok=False)
        except Exception as cause:
            logger.warning("mcp.call_failed", extra={"server": self.name, "tool": name}, exc_info=True)
            self._drop(connection)
            raise self._ended(name, cause) from cause

    def _ended(self, name: str, cause: Exception) -> ToolFailed:
        return ToolFailed(
            f"the MCP server {self.name} was lost during the call of {name} ({cause}). Whether the call took "
            "effect is not known. The server is started again at the next call."
        )

    async def close(self) -> None:
        """Close the connection to the server. It may be called again."""
        self._closed = True
        if self._connection is not None:
            self._drop(self._connection)
        if self._closing:
            await asyncio.wait(set(self._closing))

    def _connected(self) -> McpConnection:
        if self._closed:
            raise ToolFailed(f"the MCP server {self.name} is being closed")
        if self._connection is None:
            self._connection = McpConnection(self._settings, self._folder)
        return self._connection

    def _drop(self, connection: McpConnection) -> None:
        """Close a connection in the background; the next call opens another."""
        if self._connection is connection:
            self._connection = None
            closing = asyncio.create_task(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _tool(self, found: "McpTool") -> Tool:
        name = offered_name(self.name, found.name)

        async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
            if not self._settings.trusted:
                subject = json.dumps(arguments, ensure_ascii=False)
                if not await context.person.approve(ApprovalRequest(subject, name, f"a tool of {self.name}")):
                    return ToolResult(f"The call was not made: {refusal(context.person)}.", ok=False)
            return await self.call(found.name, arguments, context)

        reads = found.annotations is not None and found.annotations.read_only_hint is True
        return Tool(
            name=name,
            description=storable(found.description or found.title or found.name)[:MAX_DESCRIPTION_LENGTH],
            parameters=found.input_schema or {"type": "object", "properties": {}},
            run=run,
            timeout=None,
            changes=not reads,
        )


def offered_name(server: str, tool: str) -> str:
    """The name of a server's tool for models, in the characters that their APIs allow."""
    name = f"{server}__{NOT_IN_NAMES.sub('_', tool)}"
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def as_result(result: "CallToolResult") -> ToolResult:
    """The answer of a server as a result for the model."""
    texts = [_text(each.model_dump(mode="json")) for each in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return ToolResult(storable("\n".join(texts)) or "(no output)", ok=not result.is_error)


def _text(block: dict[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": uri}}:
            return f"(binary data from {uri}, not shown)"
        case {"type": "resource_link", "uri": uri, "name": name}:
            return f"({name}: {uri})"
        case {"type": str(kind), "mime_type": mime, "data": str(data)}:
            return f"({kind} of {mime}, {len(data) * 3 // 4} bytes, not shown)"
        case _:
            return f"({block.get('type', 'something')}, not shown)"
