"""Checks the URL of a server."""

from urllib.parse import urlsplit


def server_url_problem(url: str) -> str:
    """The problem with a server's URL; empty when there is none."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    return "" if usable else "must be like http://HOST:PORT/v1 or https://HOST/v1"
