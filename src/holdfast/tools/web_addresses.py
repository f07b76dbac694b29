"""Which addresses a page may be fetched from: what the whole internet can reach.

A name is resolved first, and then connected to by the very address that was checked, so that a name which
changes its mind in between leads nowhere else.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.errors import ToolFailed

if TYPE_CHECKING:
    import httpx

NAT64 = ipaddress.ip_network("64:ff9b::/96")
LONGEST_ADDRESS = 4000
HOST = re.compile(rb"[A-Za-z0-9._:-]+")
LAST_PORT = 65_535
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """One page's address, with the network addresses that its name stands for."""

    url: "httpx.URL"
    addresses: tuple[str, ...]

    @property
    def private(self) -> str | None:
        """The first address that is not public, if there is one."""
        return next((each for each in self.addresses if not is_public(each)), None)


def is_public(address: str) -> bool:
    """Whether an address is one of the open internet, also when it wraps another."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is None and found in NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return found.is_global and not found.is_multicast


def parse(address: str) -> "httpx.URL":
    """An address of a web page; refuses other schemes and passwords in it."""
    import httpx

    if len(address) > LONGEST_ADDRESS:
        raise ToolFailed(f"the address is longer than {LONGEST_ADDRESS} characters")
    try:
        url = httpx.URL(address.strip())
        host, port = url.raw_host, url.port
    except (httpx.InvalidURL, UnicodeError, ValueError, TypeError) as cause:
        raise ToolFailed(f"{address[:200]!r} is not the address of a web page: {cause}") from cause
    if url.scheme not in DEFAULT_PORTS or not HOST.fullmatch(host) or port == 0 or (port or 0) > LAST_PORT:
        raise ToolFailed(
            f"{address[:200]!r} is not the address of a web page; it begins with http:// or https://"
        )
    if url.userinfo:
        raise ToolFailed("an address with a user name or a password in it is not fetched")
    return url


def resolve(url: "httpx.URL") -> Target:
    """Ask for the network addresses of a page's host. Blocks."""
    host = url.raw_host.decode("ascii").strip("[]")
    port = url.port or DEFAULT_PORTS[url.scheme]
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as cause:
        raise ToolFailed(f"the host {host!r} can't be found: {cause}") from cause
    return Target(url, tuple(dict.fromkeys(str(each[4][0]) for each in found)))
