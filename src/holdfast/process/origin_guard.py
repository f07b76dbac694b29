"""`OriginGuard`: the Host header must name this server, and a browser's Origin must be this server's.

A page of another site can make a browser call loopback, under that site's name (DNS rebinding) or under this
server's name (cross-site requests). The Host header shows the first, the Origin header the second.
"""

import ipaddress
from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.core.server_url import is_address

Refuse = Callable[[Scope, int, str, str, str], Response]
"""Makes a response of a status, a reason, what is wrong and what to do next."""
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


def without_usual_port(host: str, scheme: str) -> str:
    """A Host header as browsers write it in an Origin."""
    return host.removesuffix({"http": ":80", "https": ":443"}[scheme])


class OriginGuard:
    """Passes requests that name this server and come from its own page or from no page."""

    def __init__(
        self, app: ASGIApp, bound: str, hosts: Iterable[str], origins: Iterable[str], refuse: Refuse
    ) -> None:
        self._app = app
        self._refuse = refuse
        self._open_to_the_net = not is_loopback(bound)
        self._hosts = {bound.lower(), *(each.lower().strip("[]").rstrip(".") for each in hosts)}
        self._origins = {each.lower().rstrip("/") for each in origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        given = _values(scope, b"host")
        if len(given) != 1 or not self._is_known(given[0]):
            return self._refuse(
                scope,
                421,
                "WrongHost",
                f"this server does not have the name {', '.join(given)[:200]!r}.",
                "Call it by the address it printed, or add the name to the setting web.allowed_hosts.",
            )
        origin = next(iter(_values(scope, b"origin")), None)
        if origin is not None and not self._is_ours(origin, given[0], scope["scheme"]):
            return self._refuse(
                scope,
                403,
                "ForeignOrigin",
                f"a page from {origin[:200]!r} may not call this server. Nothing was changed.",
                "Use a page of this server, or add that origin to the setting web.allowed_origins. If "
                "a proxy with TLS is in front, add its address to the setting web.trusted_proxies.",
            )
        return None

    def _is_known(self, host_header: str) -> bool:
        name = name_in(host_header)
        if not name:
            return False
        if name in self._hosts or is_loopback(name):
            return True
        # An attacker can point a name of theirs at this address, but can't do that with a bare address.
        return self._open_to_the_net and is_address(name)

    def _is_ours(self, origin: str, host: str, scheme: str) -> bool:
        lowered = origin.lower()
        return lowered in self._origins or lowered == f"{scheme}://{without_usual_port(host.lower(), scheme)}"


def _values(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
