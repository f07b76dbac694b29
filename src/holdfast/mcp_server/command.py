"""`holdfast mcp serve`: Holdfast for other agents, over standard input and output or over HTTP."""

import asyncio
import os
import socket
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from holdfast.core.errors import InvalidInput
from holdfast.core.mcp_settings import McpOffered, McpSettings
from holdfast.core.settings import Settings
from holdfast.process import run

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

    from holdfast.wiring.graceful_stop import GracefulStop

SOURCE = "mcp"
READ_BYTES = 65_536
GRACE_SECONDS = 2.0
TOKEN_FILE = "mcp-token"  # noqa: S105 - the name of a file


def serve(
    *,
    http: Annotated[bool, Parameter(name="--http", negative="")] = False,
    host: Annotated[str, Parameter(name="--host")] = "",
    port: Annotated[int | None, Parameter(name="--port")] = None,
    allow: Annotated[tuple[McpOffered, ...], Parameter(name="--allow", negative="")] = (),
    workspace: Annotated[str, Parameter(name="--workspace")] = "",
) -> None:
    """Serve past conversations and memory to other agents, over MCP, until the client leaves or Ctrl-C.

    Parameters
    ----------
    http
        Serve over HTTP instead of standard input and output. Clients must show the token.
    host
        The address to listen on.
    port
        The port to listen on; 0 takes a free one.
    allow
        What is offered besides the setting mcp.offer: remember, forget, ask; may be given again.
    workspace
        The folder that the agent works in when it is asked; by default the current folder.

    """
    from holdfast.wiring import load_settings
    from holdfast.wiring.workspace import with_workspace, workspace_of

    settings = with_workspace(load_settings(), workspace)
    given = {
        "offer": tuple(dict.fromkeys((*settings.mcp.offer, *allow))),
        "host": host or settings.mcp.host,
        "port": settings.mcp.port if port is None else port,
    }
    chosen = McpSettings.model_validate({**dict(settings.mcp), **given})
    if "ask" in chosen.offer:
        workspace_of(settings).require_trusted()
    run(_serve(settings.model_copy(update={"mcp": chosen}), http))


async def _serve(settings: Settings, http: bool) -> None:
    from holdfast import __version__
    from holdfast.mcp_server.offered_tools import build_server
    from holdfast.wiring.graceful_stop import open_host

    opened = open_host(
        settings, source=SOURCE, say=_say, attended=False, after_crash="resume", model_required=False
    )
    async with opened as (host, leaving):
        for problem in host.overview.problems:
            _say(f"! {problem}")
        server = build_server(host, settings.mcp.offer, __version__)
        serving = _over_http if http else _over_pipes
        await serving(server, settings, leaving)
    leaving.raise_signal()


async def _over_pipes(server: "MCPServer", _: Settings, leaving: "GracefulStop") -> None:
    ours, theirs = socket.socketpair()
    sys.stdin = theirs.makefile("r", encoding="utf-8")
    threading.Thread(target=_relay_input, args=(ours,), name="mcp-input", daemon=True).start()
    running = asyncio.create_task(server.run_stdio_async(), name="mcp server")
    await leaving.wait_for(running)
    with suppress(OSError):
        ours.shutdown(socket.SHUT_WR)  # the server sees the end of its input, also at a signal
    await asyncio.wait({running}, timeout=GRACE_SECONDS)
    if running.done():
        running.result()


def _relay_input(into: socket.socket) -> None:
    """Pass standard input on. A thread that waits for it can't be stopped; the exit does not wait for it."""
    with suppress(OSError):
        while data := os.read(0, READ_BYTES):
            into.sendall(data)
    with suppress(OSError):  # an input that can't be read has ended, too
        into.shutdown(socket.SHUT_WR)


async def _over_http(server: "MCPServer", given: Settings, leaving: "GracefulStop") -> None:
    from holdfast.mcp_server.http_server import run_http
    from holdfast.process.http_server import listen
    from holdfast.wiring import data_folder
    from holdfast.wiring.token_file import stored_token

    settings = given.mcp
    token = settings.token or stored_token(data_folder() / TOKEN_FILE)
    if not token:
        raise InvalidInput("there is no token, so nothing was started")
    with listen(settings.host, settings.port) as listening:
        async with run_http(server, settings.host, listening, token, given.web) as running:
            name = f"[{settings.host}]" if ":" in settings.host else settings.host
            _say(f"Holdfast is an MCP server on http://{name}:{listening.getsockname()[1]}/mcp")
            for each in given.web.allowed_hosts if given.web.trusted_proxies else ():
                _say(f"Through a proxy with TLS it is https://{each}{given.web.root_path}/mcp")
            where = "the setting mcp.token" if settings.token else str(data_folder() / TOKEN_FILE)
            _say(f"Clients send the header Authorization: Bearer TOKEN; the token is in {where}")
            await leaving.wait_for(running)
        if running.done() and not leaving.requested.is_set():
            running.result()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
