"""Who may knock: the Host header must name this server, and a browser's Origin must be this server's own.

A page on another site can make a browser call loopback, under its own name (DNS rebinding) or under ours
(cross-site requests). The first fails by its Host, the second by its Origin.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from holdfast.web.contract import AsgiApp, Receive, Scope, Send
from holdfast.web.problems import respond

LOOPBACK_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower().rstrip(".") in LOOPBACK_NAMES


def name_in(host_header: str) -> str:
    """The name in a Host header, without its port; empty when it is none."""
    try:
        return (urlsplit(f"//{host_header}").hostname or "").rstrip(".")
    except ValueError:
        return ""


class Doors:
    """Lets in whoever calls this server by its name, from its own pages or from no page at all."""

    def __init__(self, app: AsgiApp, bound: str, hosts: Iterable[str], origins: Iterable[str]) -> None:
        self._app = app
        self._open_to_the_net = not is_loopback(bound)
        self._hosts = {bound.lower(), *(each.lower().rstrip(".") for each in hosts)}
        self._origins = {each.lower().rstrip("/") for each in origins}
        # The same few names come again and again.
        self._knows = lru_cache(maxsize=64)(self._is_known)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = _values(scope, b"host")
            if len(given) != 1 or not self._knows(given[0]):
                problem = respond(
                    scope,
                    421,
                    "WrongHost",
                    f"this server does not go by the name {', '.join(given)[:200]!r}.",
                    "Call it by the address it printed, or add the name to the setting web.allowed_hosts.",
                )
                await problem(scope, receive, send)
                return
            origin = next(iter(_values(scope, b"origin")), None)
            if origin is not None and not self._is_ours(origin, given[0], scope["scheme"]):
                problem = respond(
                    scope,
                    403,
                    "ForeignOrigin",
                    f"a page from {origin[:200]!r} may not call this server. Nothing was changed.",
                    "Use the page of this server, or add that origin to the setting web.allowed_origins.",
                )
                await problem(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _is_known(self, host_header: str) -> bool:
        name = name_in(host_header)
        if not name:
            return False
        if name in self._hosts or is_loopback(name):
            return True
        # An attacker's name can be made to lead here; a bare address can't stand for another name.
        return self._open_to_the_net and _is_address(name)

    def _is_ours(self, origin: str, host: str, scheme: str) -> bool:
        lowered = origin.lower()
        return lowered in self._origins or lowered == f"{scheme}://{host.lower()}"


def _values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
