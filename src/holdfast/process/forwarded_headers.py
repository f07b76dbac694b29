"""`ForwardedHeaders`: the real client and address of a request that came through a trusted proxy.

A proxy names its client (`X-Forwarded-For`), the scheme (`X-Forwarded-Proto`) and the host
(`X-Forwarded-Host`), or all of them in `Forwarded` (RFC 7239). Anybody can send such headers, so they count
only from the addresses in `web.trusted_proxies`; from others they are dropped. `web.root_path` is removed
from the path of a request, since some proxies pass that prefix on and others remove it.
"""

import ipaddress
import logging
import re
from collections.abc import Iterable

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

logger = logging.getLogger(__name__)

X_FOR, X_PROTO, X_HOST, FORWARDED = (
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"forwarded",
)
HEADERS = frozenset({X_FOR, X_PROTO, X_HOST, FORWARDED})
PAIR = re.compile(r'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)=("(?:[^"\\]|\\.)*"|[^\s;,"]*)\s*')
HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(?::\d{1,5})?")
SCHEMES = ("http", "https")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Hop = dict[str, str]


class ForwardedHeaders:
    """Around everything: the layers inside see the client, the scheme and the name that a browser used."""

    def __init__(self, app: ASGIApp, trusted: Iterable[str], root_path: str) -> None:
        self._app = app
        self._trusted = tuple(ipaddress.ip_network(each) for each in trusted)
        self._root = root_path
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._root and scope["path"] == self._root:
            # The page's links are relative: they need the slash.
            await RedirectResponse(f"{self._root}/", 307)(scope, receive, send)
            return
        given = [(name, value) for name, value in scope["headers"] if name in HEADERS]
        if given:
            scope["headers"] = [each for each in scope["headers"] if each[0] not in HEADERS]
            if is_trusted(scope.get("client"), self._trusted):
                self._take(scope, given)
            elif not self._warned:
                self._warned = True
                facts = {"client": (scope.get("client") or ("",))[0], "setting": "web.trusted_proxies"}
                logger.warning("web.forwarded_headers_ignored", extra=facts)
        self._below_root(scope)
        await self._app(scope, receive, send)

    def _take(self, scope: Scope, given: list[tuple[bytes, bytes]]) -> None:
        """Believe the nearest proxy about its client, and that one only if it is a trusted proxy, too."""
        asked = nearest(given, self._trusted)
        if "for" in asked:
            scope["client"] = (asked["for"], 0)
        if asked.get("proto") in SCHEMES:
            scope["scheme"] = asked["proto"]
        if HOST.fullmatch(asked.get("host", "")):
            others = [each for each in scope["headers"] if each[0] != b"host"]
            scope["headers"] = [*others, (b"host", asked["host"].encode("latin-1"))]

    def _below_root(self, scope: Scope) -> None:
        prefix = f"{self._root}/"
        if self._root and scope["path"].startswith(prefix):
            scope["path"] = scope["path"][len(self._root) :]
            raw: bytes = scope.get("raw_path") or b""
            if raw.startswith(prefix.encode()):
                scope["raw_path"] = raw[len(self._root) :]


def is_trusted(client: tuple[str, int] | None, trusted: Iterable[Network]) -> bool:
    """Whether a connection comes from a named proxy."""
    address = address_in(client[0]) if client else None
    return address is not None and any(address in network for network in trusted)


def nearest(given: list[tuple[bytes, bytes]], trusted: tuple[Network, ...]) -> Hop:
    """The last hop whose client is not a trusted proxy.

    `Forwarded` counts only without the other headers: a proxy that writes one kind passes the other on as
    the client sent it.
    """
    plain = {name: _listed(given, name) for name in (X_FOR, X_PROTO, X_HOST)}
    if any(plain.values()):
        # One value, or as many as there were proxies: the last is by the nearest of them.
        last = {key: plain[name][-1] for key, name in (("proto", X_PROTO), ("host", X_HOST)) if plain[name]}
        return _last_untrusted([{"for": each} for each in plain[X_FOR]], trusted) | last
    return _last_untrusted(forwarded_hops(",".join(value.decode("latin-1") for _, value in given)), trusted)


def _last_untrusted(hops: list[Hop], trusted: tuple[Network, ...]) -> Hop:
    for hop in reversed(hops):
        address = _client(hop.get("for", ""))
        if address is None:
            return {key: value for key, value in hop.items() if key != "for"}
        if hop is hops[0] or not any(address in network for network in trusted):
            return hop | {"for": str(address)}
    return {}


def forwarded_hops(text: str) -> list[Hop]:
    """The hops of a `Forwarded` header, the nearest last; none when it is not well formed."""
    hops: list[Hop] = [{}]
    place = 0
    while place < len(text):
        pair = PAIR.match(text, place)
        if pair is None or pair[1].lower() in hops[-1]:
            return []
        value = pair[2]
        hops[-1][pair[1].lower()] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        place = pair.end()
        if place == len(text):
            return hops
        if text[place] not in ";,":
            return []
        if text[place] == ",":
            hops.append({})
        place += 1
    return []


def address_in(text: str) -> Address | None:
    """An IP address as such; one of IPv4 that is written as one of IPv6 is one of IPv4."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _client(text: str) -> Address | None:
    """The address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`."""
    if text.startswith("["):
        return address_in(text[1:].partition("]")[0])
    name, _, port = text.partition(":")
    return address_in(name if port.isdigit() else text)


def _listed(given: list[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    text = ",".join(value.decode("latin-1") for name, value in given if name == wanted)
    return [each.strip() for each in text.split(",") if each.strip()]
