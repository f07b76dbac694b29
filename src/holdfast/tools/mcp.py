"""The tools of MCP servers, with names like `server__tool`. `mcp_connection.py` connects to a server.

A server that can't be used is reported by its name and left out. When a server ends during a call, the call
fails, and the next call starts the server again. A server that changes its list of tools is offered with the
new list from the next turn on. Its resources and prompts are two more tools: `server__resources` and
`server__prompts`.
"""

import asyncio
import hashlib
import importlib
import json
import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.error_text import error_words
from holdfast.core.errors import InvalidInput, ToolFailed, ToolInvalid
from holdfast.core.messages import storable
from holdfast.core.settings import McpServerSettings
from holdfast.process import DaemonPool, off_loop
from holdfast.tools.contract import ApprovalRequest, OffLoop, Tool, ToolContext, ToolResult, refusal
from holdfast.tools.mcp_connection import McpConnection, McpOffer
from holdfast.tools.mcp_requests import ActiveCall, Complete, McpRequests
from holdfast.tools.mcp_results import as_result, prompt_result, resource_result
from holdfast.tools.mcp_schemas import usable_tools
from holdfast.tools.mcp_sign_in import SignIns

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as McpTool

logger = logging.getLogger(__name__)

MAX_NAME_LENGTH = 64
MAX_DESCRIPTION_LENGTH = 4000
MAX_LISTED = 200
RESOURCES, PROMPTS = "resources", "prompts"
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


class McpServers:
    """The MCP servers of one agent. Used on the loop's thread only."""

    def __init__(
        self,
        servers: Sequence[McpServerSettings],
        folder: Path,
        complete: Complete | None = None,
        bound: Callable[[Tool], Tool] = lambda tool: tool,
        sign_ins: SignIns | None = None,
    ) -> None:
        """`complete` asks the model for a server that samples; `bound` limits what a tool gives."""
        self._servers = [McpServer(each, folder, complete, bound, sign_ins) for each in servers]

    async def open(self, off_loop: OffLoop) -> list[str]:
        """Start all servers at the same time. Returns the problems of servers that failed."""
        if not self._servers:
            return []
        # To import the SDK takes a second, and must not block the event loop.
        await off_loop(importlib.import_module, "mcp")
        opened = await asyncio.gather(*(each.open() for each in self._servers), return_exceptions=True)
        problems: list[str] = []
        for server, outcome in zip(self._servers, opened, strict=True):
            if isinstance(outcome, ToolInvalid):
                problems.append(f"the MCP server {server.name} is left out: {outcome.problem}")
            elif isinstance(outcome, BaseException):
                raise outcome
        taken: set[str] = set()
        for server in self._servers:
            left_out = [*server.left_out]
            for each in server.tools:
                if each.name in taken:
                    left_out.append(f"{each.name} is there already")
                taken.add(each.name)
            problems += [f"a tool of the MCP server {server.name} is left out: {each}" for each in left_out]
        return problems

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the servers offer now; of two with one name the first."""
        found: dict[str, Tool] = {}
        for server in self._servers:
            for each in server.tools:
                found.setdefault(each.name, each)
        return tuple(found.values())

    async def close(self) -> None:
        """Close all servers. It may be called again."""
        await asyncio.gather(*(each.close() for each in self._servers))


async def tools_of(
    server: McpServerSettings, sign_ins: SignIns | None = None
) -> tuple[tuple[Tool, ...], list[str]]:
    """Start one server; its tools, and what is left out and why. `InvalidInput` when it can't be used."""
    pool = DaemonPool("mcp", workers=1, backlog=10)
    servers = McpServers([server], Path.cwd(), sign_ins=sign_ins)
    try:
        problems = await servers.open(lambda fn, *args: off_loop(pool, fn, *args))
        if problems and not servers.tools:
            raise InvalidInput("; ".join(problems))
        return servers.tools, problems
    finally:
        await servers.close()
        pool.close(0)


class McpServer:
    """One server. A lost connection is replaced by a new one."""

    def __init__(
        self,
        settings: McpServerSettings,
        folder: Path,
        complete: Complete | None,
        bound: Callable[[Tool], Tool],
        sign_ins: SignIns | None,
    ) -> None:
        self.name = settings.name
        self._sign_ins = sign_ins
        self.tools: tuple[Tool, ...] = ()
        """What it offers now, as tools."""
        self.left_out: tuple[str, ...] = ()
        """What it offers and no model can be given, each with the reason."""
        self._settings = settings
        self._folder = folder
        self._bound = bound
        self._requests = McpRequests(settings.name, folder, complete)
        self._connection: McpConnection | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> None:
        """Connect; raises `ToolInvalid` when the server can't be used."""
        await self._connected().client()

    async def _ask(
        self,
        name: str,
        context: ToolContext,
        request: "Callable[[Client], Awaitable[ToolResult]]",
    ) -> ToolResult:
        """Make one request. A server that has ended is started again first."""
        from mcp import MCPError
        from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, INVALID_REQUEST

        connection = self._connected()
        try:
            client = await connection.client()
            async with asyncio.timeout(self._settings.seconds) as limit:
                with self._requests.during(ActiveCall(context, limit, self._settings.seconds)):
                    return await request(client)
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

    async def _call(self, name: str, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            context.say(progress_line(progress, total, message))

        async def call(client: "Client") -> ToolResult:
            answer = await client.call_tool(name, arguments, progress_callback=on_progress)
            result: ToolResult = await context.off_loop(as_result, answer)
            return result

        return await self._ask(name, context, call)

    async def _read(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Read a resource, or list them all."""

        async def read(client: "Client") -> ToolResult:
            if uri := str(arguments.get("uri") or ""):
                found: ToolResult = await context.off_loop(resource_result, await client.read_resource(uri))
                return found
            plain = (await client.list_resources()).resources
            templates = (await client.list_resource_templates()).resource_templates
            listed = [f"{each.uri}  {each.description or each.name}" for each in plain]
            listed += [f"{each.uri_template}  {each.description or each.name}" for each in templates]
            return ToolResult(storable("\n".join(listed[:MAX_LISTED])) or "there are none")

        return await self._ask(RESOURCES, context, read)

    async def _prompt(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        async def get(client: "Client") -> ToolResult:
            given = {str(name): str(value) for name, value in (arguments.get("arguments") or {}).items()}
            found: ToolResult = await context.off_loop(
                prompt_result, await client.get_prompt(str(arguments["name"]), given)
            )
            return found

        return await self._ask(PROMPTS, context, get)

    def _ended(self, name: str, cause: Exception) -> ToolFailed:
        return ToolFailed(
            f"the MCP server {self.name} was lost during the call of {name} ({error_words(cause)}). "
            "Whether the call took effect is not known. The server is started again at the next call."
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
            self._connection = McpConnection(
                self._settings, self._folder, self._requests, self._offered, self._sign_ins
            )
        return self._connection

    def _drop(self, connection: McpConnection) -> None:
        """Close a connection in the background; the next call opens another."""
        if self._connection is connection:
            self._connection = None
            closing = asyncio.create_task(connection.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _offered(self, offer: McpOffer) -> None:
        """Take down what the server offers now."""
        usable, left_out = usable_tools(offer.tools)
        self.left_out = tuple(left_out)
        if left_out:
            logger.warning("mcp.tools_left_out", extra={"server": self.name, "tools": left_out})
        tools = [self._tool(each, parameters) for each, parameters in usable]
        taken = {each.name for each in tools}
        if offer.resources:
            tools.append(self._own_tool(RESOURCES, READ_RESOURCE, RESOURCE_PARAMETERS, self._read))
        if offer.prompts:
            listed = "; ".join(
                f"{each.name}({', '.join(argument.name for argument in each.arguments or ())}): "
                f"{each.description or each.title or ''}"
                for each in offer.prompts
            )
            tools.append(self._own_tool(PROMPTS, GET_PROMPT + listed, PROMPT_PARAMETERS, self._prompt))
        self.tools = tuple(
            self._bound(each)
            for place, each in enumerate(tools)
            if place < len(usable) or each.name not in taken
        )

    def _tool(self, found: "McpTool", parameters: dict[str, Any]) -> Tool:
        async def run(arguments: dict[str, Any], context: ToolContext) -> ToolResult:
            return await self._call(found.name, arguments, context)

        reads = found.annotations is not None and found.annotations.read_only_hint is True
        description = storable(found.description or found.title or found.name)
        return self._own_tool(found.name, description, parameters, run, changes=not reads)

    def _own_tool(
        self,
        given_name: str,
        description: str,
        parameters: dict[str, Any],
        request: Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]],
        *,
        changes: bool = False,
    ) -> Tool:
        """A tool that asks the person first, unless the server is trusted."""
        name = offered_name(self.name, given_name)

        async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:
            if not self._settings.trusted:
                subject = json.dumps(arguments, ensure_ascii=False)
                if not await context.person.approve(ApprovalRequest(subject, name, f"a tool of {self.name}")):
                    return ToolResult(f"The call was not made: {refusal(context.person)}.", ok=False)
            return await request(arguments, context)

        return Tool(
            name=name,
            description=description[:MAX_DESCRIPTION_LENGTH],
            parameters=parameters,
            run=run,
            timeout=None,
            changes=changes,
        )


READ_RESOURCE = "Read a resource of this server by its uri. Without a uri: list its resources."
RESOURCE_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "description": "which resource; empty lists them"}},
}
GET_PROMPT = "Get a prepared prompt of this server, to follow it. There are: "
PROMPT_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "the name of the prompt"},
        "arguments": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
}


def progress_line(progress: float, total: float | None, message: str | None) -> str:
    """How far a call is, as a line for the person."""
    if total:
        done = f"{min(progress / total, 1):.0%}"
        return f"{done} {storable(message)}\n" if message else f"{done}\n"
    return f"{storable(message)}\n" if message else f"{progress:g}\n"


def offered_name(server: str, tool: str) -> str:
    """The name of a server's tool for models, in the characters that their APIs allow."""
    name = f"{server}__{NOT_IN_NAMES.sub('_', tool)}"
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[: MAX_NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
