"""What the web surface is made of. Read this first, then `app.py`.

A request is read by `connection.py` and passes, from the outside in: `requests.py` (its id, the log, the last
resort), `doors.py` (Host and Origin), `limits.py` (rate and size), `auth.py` (the token), and then a route of
`routes/`, which makes one call on the host. What comes back is a view of `views.py`, an event stream
(`streaming.py`) or a problem (`problems.py`). `/v1` is `compat/`.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.secret import Secret
from holdfast.core.settings import WebSettings
from holdfast.host import Host
from holdfast.web.background import Background
from holdfast.web.metrics import Metrics
from holdfast.web.streaming import OpenStreams

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp = Callable[[Scope, Receive, Send], Awaitable[None]]


async def _no_others() -> tuple[str, list[str]]:
    return "", []


@dataclass(frozen=True, slots=True)
class Web:
    """The surface's parts. An empty token: nobody is asked for one."""

    host: Host
    settings: WebSettings
    token: Secret
    streams: OpenStreams
    list_models: Callable[[], Awaitable[tuple[str, list[str]]]] = _no_others
    background: Background = field(default_factory=Background)
    metrics: Metrics = field(default_factory=Metrics)
    clock: Clock = field(default_factory=SystemClock)


# Plain functions would be run on a thread each.
async def _web(request: Request) -> Web:
    web: Web = request.app.state.web
    return web


async def _host(request: Request) -> Host:
    return (await _web(request)).host


TheWeb = Annotated[Web, Depends(_web)]
TheHost = Annotated[Host, Depends(_host)]
