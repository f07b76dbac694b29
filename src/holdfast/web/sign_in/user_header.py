"""`UserHeader`: the account that a trusted proxy names in a header (`web.user_header`).

It stands outside of `ForwardedHeaders`, where the client is still who is connected. From a trusted proxy the
header becomes the request's `proxied` mark; from anybody else it is dropped. Nothing inside sees the header.
"""

import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.process.forwarded_headers import is_trusted

logger = logging.getLogger(__name__)

MARK = "holdfast.proxied"
ISSUER = "proxy"
LONGEST = 1_000


@dataclass(frozen=True, slots=True)
class Proxied:
    """A request that came through a proxy which signs people in; `name` is empty when it named nobody."""

    name: str


def proxied(scope: Scope) -> Proxied | None:
    """What a proxy said of this request; None when it came past it, or when no proxy signs in."""
    found: Proxied | None = scope.get(MARK)
    return found


class UserHeader:
    """The outermost middleware, where the setting is on."""

    def __init__(self, app: ASGIApp, header: str, trusted: Iterable[str]) -> None:
        self._app = app
        self._header = header.lower().encode()
        self._trusted = tuple(ipaddress.ip_network(each) for each in trusted)
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            given = [value for name, value in scope["headers"] if name == self._header]
            scope["headers"] = [each for each in scope["headers"] if each[0] != self._header]
            if is_trusted(scope.get("client"), self._trusted):
                scope[MARK] = Proxied(_name(given))
            elif given and not self._warned:
                self._warned = True
                facts = {"client": (scope.get("client") or ("",))[0], "setting": "web.trusted_proxies"}
                logger.warning("web.user_header_ignored", extra=facts)
        await self._app(scope, receive, send)


def _name(given: list[bytes]) -> str:
    """The one name that was given; none when there are several, or when it is no text."""
    try:
        names = [value.decode().strip() for value in given]
    except UnicodeDecodeError:
        return ""
    return names[0] if len(names) == 1 and len(names[0]) <= LONGEST else ""
