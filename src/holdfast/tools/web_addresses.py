"""Decides which addresses a page may be fetched from: only public addresses of the internet.

A name is resolved first. The connection then uses the address that was checked, so that a change of the name
meanwhile has no effect.
"""

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.errors import ToolFailed
from holdfast.process import NameLookup

if TYPE_CHECKING:
    import httpx2

IPv4 = ipaddress.IPv4Address
IPv6 = ipaddress.IPv6Address
# The registries of special addresses, listed here because `is_global` differs between Python versions.
NOT_PUBLIC_4 = tuple(
    map(
        ipaddress.IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
PUBLIC_6 = ipaddress.IPv6Network("2000::/3")
"""All addresses that are assigned to the public internet. Every other address is not public."""
NOT_PUBLIC_6 = tuple(
    map(
        ipaddress.IPv6Network,
        # Protocol assignments (including Teredo), and two blocks for documentation.
        ("2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
SIX_TO_FOUR = ipaddress.IPv6Network("2002::/16")
ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of an interface id that ends with an IPv4 address."""
MAX_URL_LENGTH = 4000
HOST = re.compile(rb"[A-Za-z0-9._:-]+")
LAST_PORT = 65_535
DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    """The URL of a page, with the network addresses of its host."""

    url: "httpx2.URL"
    addresses: tuple[str, ...]

    @property
    def private(self) -> str | None:
        """The first address that is not public; None when all are public."""
        return next((each for each in self.addresses if not is_public(each)), None)


def is_public(address: str) -> bool:
    """Whether an address is public, also when it contains another address."""
    found = ipaddress.ip_address(address)
    if isinstance(found, IPv4):
        return not any(found in each for each in NOT_PUBLIC_4)
    if found.scope_id is not None:
        return False
    if found in MAPPED or found in NAT64:
        return is_public(str(IPv4(int(found) & 0xFFFF_FFFF)))
    if found not in PUBLIC_6 or any(found in each for each in NOT_PUBLIC_6):
        return False
    inner = _inner(found)
    return inner is None or is_public(str(inner))


def _inner(found: IPv6) -> IPv4 | None:
    """The IPv4 address to which a router forwards packets for this address."""
    if found in SIX_TO_FOUR:
        return IPv4(int(found) >> 80 & 0xFFFF_FFFF)
    if int(found) >> 32 & 0xFFFF_FFFF in ISATAP:
        return IPv4(int(found) & 0xFFFF_FFFF)
    return None


def parse(address: str) -> "httpx2.URL":
    """Parse the URL of a web page; refuses other schemes, and URLs with a password."""
    import httpx2

    if len(address) > MAX_URL_LENGTH:
        raise ToolFailed(f"the address is longer than {MAX_URL_LENGTH} characters")
    try:
        url = httpx2.URL(address.strip())
        host, port = url.raw_host, url.port
    except (httpx2.InvalidURL, UnicodeError, ValueError, TypeError) as cause:
        raise ToolFailed(f"{address[:200]!r} is not the address of a web page: {cause}") from cause
    if url.scheme not in DEFAULT_PORTS or not HOST.fullmatch(host) or port == 0 or (port or 0) > LAST_PORT:
        raise ToolFailed(
            f"{address[:200]!r} is not the address of a web page; it begins with http:// or https://"
        )
    if url.userinfo:
        raise ToolFailed("an address with a user name or a password in it is not fetched")
    return url


async def resolve(url: "httpx2.URL", names: NameLookup) -> Target:
    """Look up the network addresses of a page's host."""
    host = url.raw_host.decode("ascii").strip("[]")
    try:
        found = await names.addresses(host, url.port or DEFAULT_PORTS[url.scheme])
    except (OSError, UnicodeError) as cause:
        raise ToolFailed(f"the host {host!r} can't be found: {cause}") from cause
    return Target(url, tuple(found))
