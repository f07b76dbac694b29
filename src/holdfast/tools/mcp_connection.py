"""One connection to an MCP server. One task opens it, lists what the server offers, and closes it.

The SDK requires that the same task opens and closes its scopes, so other tasks only borrow the client. When a
server has ended, the next call notices it, and a new connection replaces this one. When the server says that
its list has changed, the list is read again.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from holdfast.core.errors import ToolInvalid
from holdfast.core.settings import McpServerSettings
from holdfast.process import with_original_limit
from holdfast.tools.mcp_requests import McpRequests
from holdfast.tools.mcp_sign_in import SIGN_IN_SECONDS, SignIns, sign_in_hint

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client.session import IncomingMessage
    from mcp_types import Prompt
    from mcp_types import Tool as McpTool

logger = logging.getLogger(__name__)

START_SECONDS = 30.0
CLOSE_SECONDS = 10.0
STDERR_KEPT = 2000
MAX_PAGES = 20
MAX_TOOLS = 200
UNAUTHORISED = 401


@dataclass(frozen=True, slots=True)
class McpOffer:
    """What a server offers."""

    tools: "tuple[McpTool, ...]" = ()
    resources: bool = False
    """Whether it has resources to read."""
    prompts: "tuple[Prompt, ...]" = ()


class McpConnection:
    """Starts to open when it is created; `client` waits until it is open.

    `on_offer` hears what the server offers, at the start and whenever that has changed.
    """

    def __init__(
        self,
        server: McpServerSettings,
        folder: Path,
        requests: McpRequests,
        on_offer: Callable[[McpOffer], None],
        sign_ins: SignIns | None = None,
    ) -> None:
        self._server = server
        self._sign_ins = sign_ins
        self._unauthorised = False
        asks = sign_ins is not None and sign_ins.browser is not None
        self._start_seconds = SIGN_IN_SECONDS if asks else START_SECONDS
        self._folder = folder
        self._requests = requests
        self._on_offer = on_offer
        self._stop = asyncio.Event()
        self._wake = asyncio.Event()  # a change, or the stop
        self._stderr = bytearray()
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._task = asyncio.create_task(self._serve(), name=f"mcp {server.name}")

    async def client(self) -> "Client":
        """The client; raises `ToolInvalid` when the server can't be used."""
        try:
            async with asyncio.timeout(self._start_seconds):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            self._task.cancel()
            problem = f"it did not answer within {self._start_seconds:g} s"
            raise ToolInvalid(self._server.name, problem + self._stderr_tail()) from None

    async def close(self) -> None:
        """Close the connection, within a time limit. It may be called again."""
        self._stop.set()
        self._wake.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)

    async def _serve(self) -> None:
        try:
            async with self._opened() as client:
                self._on_offer(await _offer(client))
                self._ready.set_result(client)
                await self._follow_changes(client)
        except BaseException as cause:
            if self._ready.done():
                if not isinstance(cause, asyncio.CancelledError):
                    logger.warning("mcp.ended_badly", extra={"server": self._server.name}, exc_info=cause)
            else:
                problem = "; ".join(dict.fromkeys(_failure_lines(cause)))
                if self._unauthorised and self._start_seconds == START_SECONDS:
                    problem = sign_in_hint(self._server.name)
                self._ready.set_exception(ToolInvalid(self._server.name, problem + self._stderr_tail()))
            if isinstance(cause, asyncio.CancelledError | KeyboardInterrupt | SystemExit):
                raise

    async def _follow_changes(self, client: "Client") -> None:
        """Read the server's list again whenever it says so, until the connection is closed."""
        listening = asyncio.create_task(self._listen(client), name=f"mcp changes {self._server.name}")
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                if self._stop.is_set():
                    return
                try:
                    self._on_offer(await _offer(client))
                except Exception:  # the server's fault: what it offered before stays
                    logger.warning("mcp.not_listed", extra={"server": self._server.name}, exc_info=True)
        finally:
            listening.cancel()
            await asyncio.wait({listening})

    async def _listen(self, client: "Client") -> None:
        """Hear of changes from a server of the newer protocol, which speaks of them only when asked to."""
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        try:
            everything = client.listen(
                tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True
            )
            async with everything as changes:
                async for _ in changes:
                    self._wake.set()
        except Exception as cause:  # noqa: BLE001 - a server need not offer it
            logger.info("mcp.not_listening", extra={"server": self._server.name, "cause": repr(cause)})

    async def _on_message(self, message: "IncomingMessage") -> None:
        """Hear of changes from a server of the older protocol."""
        from mcp_types import (
            PromptListChangedNotification,
            ResourceListChangedNotification,
            ToolListChangedNotification,
        )

        lists = ToolListChangedNotification | PromptListChangedNotification | ResourceListChangedNotification
        if isinstance(message, lists):
            self._wake.set()

    @asynccontextmanager
    async def _opened(self) -> "AsyncIterator[Client]":
        from mcp import Client, Implementation

        async with AsyncExitStack() as stack:
            transport = self._command(stack) if self._server.command else self._address(stack)
            client = Client(
                await transport,
                client_info=Implementation(name="holdfast", version="1"),
                cache=None,
                message_handler=self._on_message,
                elicitation_callback=self._requests.elicit,
                sampling_callback=self._requests.sample if self._requests.samples else None,
                list_roots_callback=self._requests.roots,
            )
            yield await stack.enter_async_context(client)

    async def _command(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - the SDK's transport
        from mcp import StdioServerParameters, stdio_client

        program, *arguments = self._program()
        parameters = StdioServerParameters(
            command=program,
            args=arguments,
            env=dict(self._server.env),
            cwd=self._folder,
            encoding_error_handler="replace",
        )
        errors = await stack.enter_async_context(kept_stderr(self._stderr))
        return stdio_client(parameters, errlog=errors)

    def _program(self) -> list[str]:
        from mcp.client.stdio import get_default_environment

        command = self._server.command
        search = (get_default_environment() | dict(self._server.env)).get("PATH", os.defpath)
        words = [command, *self._server.args]
        # A shell would start in its place, and hide that there is no such program.
        found = shutil.which(self._folder / command if "/" in command else command, path=search)
        return with_original_limit(words) if found else words

    async def _address(self, stack: AsyncExitStack) -> Any:  # noqa: ANN401 - the SDK's transport
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        from holdfast.process.http_transport import direct_transport

        timeout = httpx2.Timeout(START_SECONDS, read=self._server.seconds)
        headers = dict(self._server.headers)
        http = httpx2.AsyncClient(
            headers=headers,
            timeout=timeout,
            transport=direct_transport(),
            auth=None if self._sign_ins is None else self._sign_ins.provider(self._server),
            event_hooks={"response": [self._note_refusal]},
        )
        await stack.enter_async_context(http)
        return streamable_http_client(self._server.url, http_client=http)

    async def _note_refusal(self, response: "httpx2.Response") -> None:
        self._unauthorised = self._unauthorised or response.status_code == UNAUTHORISED

    def _stderr_tail(self) -> str:
        tail = self._stderr.decode("utf-8", "replace").strip()
        return f". Its last output: {tail}" if tail else ""


async def _offer(client: "Client") -> McpOffer:
    """Everything that the server offers. Only a failing list of tools is an error."""
    can = client.server_capabilities
    return McpOffer(
        tuple(await _tools(client)) if can.tools is not None else (),
        can.resources is not None and await _has_resources(client),
        await _prompts(client) if can.prompts is not None else (),
    )


async def _has_resources(client: "Client") -> bool:
    from mcp import MCPError

    try:
        if (await client.list_resources()).resources:
            return True
        return bool((await client.list_resource_templates()).resource_templates)
    except MCPError:
        return False


async def _prompts(client: "Client") -> "tuple[Prompt, ...]":
    from mcp import MCPError

    try:
        return tuple((await client.list_prompts()).prompts)
    except MCPError:
        return ()


async def _tools(client: "Client") -> "list[McpTool]":
    found: list[McpTool] = []
    cursor = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if cursor is None or len(found) > MAX_TOOLS:
            break
    return found[:MAX_TOOLS]


@asynccontextmanager
async def kept_stderr(kept: bytearray) -> AsyncIterator[TextIO]:
    """A file for the standard error of a server; its last bytes are kept."""
    out, into = os.pipe()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: _Tail(kept), os.fdopen(out, "rb", buffering=0))
    try:
        with os.fdopen(into, "w") as file:
            yield file
    finally:
        transport.close()


class _Tail(asyncio.Protocol):
    def __init__(self, kept: bytearray) -> None:
        self._kept = kept

    def data_received(self, data: bytes) -> None:
        self._kept += data
        del self._kept[:-STDERR_KEPT]


def _failure_lines(cause: BaseException) -> Iterator[str]:
    """One line for each failure in a group of exceptions."""
    if isinstance(cause, BaseExceptionGroup):
        for each in cause.exceptions:
            yield from _failure_lines(each)
    elif isinstance(cause, asyncio.CancelledError):
        yield "it was closed before it answered"
    else:
        yield " ".join(str(cause).split())[:300] or type(cause).__name__
