"""Runs the application on uvicorn until it is asked to stop, and then ends at once.

`command.py` handles signals, `process/server_connection.py` reads from the sockets.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.process.http_server import serving
from holdfast.process.listen_socket import ListenSocket
from holdfast.web.app import build_app
from holdfast.web.contract import WebParts

KEEP_ALIVE_SECONDS = 75


def inherit(file: int) -> ListenSocket:
    """The socket that another process listens on and has handed down."""
    with socket.socket(fileno=os.dup(file)) as known:
        family = known.family
    return ListenSocket(family, file)


@asynccontextmanager
async def run_server(web: WebParts, listening: ListenSocket) -> AsyncIterator["asyncio.Task[None]"]:
    """The server, while inside; its task ends early only when it fails."""
    app = build_app(web)
    running = serving(
        app,
        listening,
        name="web server",
        client_timeout_s=web.settings.client_timeout_s,
        before_stop=web.streams.close,
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
    try:
        async with running as task:
            yield task
    finally:
        app.state.sign_in.sign_ins.close()
