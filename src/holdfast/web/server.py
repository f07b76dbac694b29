"""Runs the application on uvicorn until it is asked to stop, and then ends at once.

`command.py` handles signals, `process/server_connection.py` reads from the sockets.
"""

import asyncio
import os
import socket
from contextlib import AbstractAsyncContextManager

from holdfast.core.clock import SystemClock
from holdfast.process.http_server import family_of, listen, serving
from holdfast.process.listen_socket import FullLog, ListenSocket
from holdfast.process.server_connection import http_protocol
from holdfast.web.app import build_app
from holdfast.web.contract import WebParts

KEEP_ALIVE_SECONDS = 75


def bind(host: str, port: int) -> ListenSocket:
    """A socket that listens on this address; `InvalidInput` says why it can't."""
    return listen(ListenSocket(family_of(host)), host, port)


def inherit(file: int) -> ListenSocket:
    """The socket that another process listens on and has handed down."""
    with socket.socket(fileno=os.dup(file)) as known:
        family = known.family
    return ListenSocket(family, file)


def run_server(web: WebParts, listening: ListenSocket) -> AbstractAsyncContextManager["asyncio.Task[None]"]:
    """The server, while inside; its task ends early only when it fails."""
    listening.on_full = FullLog(SystemClock()).note
    return serving(
        build_app(web),
        listening,
        name="web server",
        before_stop=web.streams.close,
        http=http_protocol(web.settings.client_timeout_s, listening.on_full),
        lifespan="off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
    )
