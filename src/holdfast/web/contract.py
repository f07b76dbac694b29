"""The web surface: what it offers, its parts, and the way of a request. Read this first, then `app.py`.

It offers the page (`page/`), the HTTP API (`/api`, `routes/`) and OpenAI's protocol (`/v1`, `compat/`), all
on one host. `command.py` is `holdfast web`; a program that has a host calls `build_app(WebParts(...))`.

A request passes these files, from the outside to the inside:

1. `process/listen_socket.py` and `process/server_connection.py` accept a connection and read HTTP;
2. `process/forwarded_headers.py` takes the client's address from a trusted proxy, `request_log.py` gives
   the request an id, a line in the log and the security headers;
3. `process/origin_guard.py` checks Host and Origin, `limits.py` the rate and the size, `auth.py` the token,
   `access.py` what an account may ask for (`principal.py` is for whom a request acts);
4. a route reads the body (`bodies.py`), makes one call on the host, and answers with a view (`views.py`),
   with an event stream (`streams.py`, `sse.py`) or with a problem (`problems.py`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.host import SessionHost
from holdfast.process import BackgroundTasks, DaemonPool
from holdfast.web.metrics import Metrics
from holdfast.web.streams import OpenStreams


def fetching_pool() -> DaemonPool:
    """One download at a time: it may take minutes, and a second one would be the same."""
    return DaemonPool("model download", 1, 0)


def tell_nobody(_model: str) -> None:
    """For a server that is one process."""


@dataclass(frozen=True, slots=True)
class WebParts:
    """What the application is built from."""

    host: SessionHost
    settings: WebSettings
    token: Secret
    """What clients must show. An empty token: clients need none."""
    streams: OpenStreams
    background: BackgroundTasks = field(default_factory=BackgroundTasks)
    fetching: DaemonPool = field(default_factory=fetching_pool)
    metrics: Metrics = field(default_factory=Metrics)
    clock: Clock = field(default_factory=SystemClock)
    on_model: Callable[[str], None] = tell_nobody
    """Called when another model is used from now on, with its name; empty: that of the settings."""


# Coroutines, because FastAPI runs a plain function on a thread.
async def _web(request: Request) -> WebParts:
    web: WebParts = request.app.state.web
    return web


async def _host(request: Request) -> SessionHost:
    return (await _web(request)).host


WebDep = Annotated[WebParts, Depends(_web)]
HostDep = Annotated[SessionHost, Depends(_host)]
"""What a route declares to get the parts or the host."""
