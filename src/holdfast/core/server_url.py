"""Checks the URL and the host of a server."""

import ipaddress
from urllib.parse import urlsplit


def server_url_problem(url: str) -> str:
    """The problem with a server's URL; empty when there is none."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    return "" if usable else "must be like http://HOST:PORT/v1 or https://HOST/v1"


def is_address(host: str) -> bool:
    """Whether the host is an IP address, which needs no lookup."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
