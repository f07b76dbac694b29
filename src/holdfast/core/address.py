"""Whether a text is the address of a server."""

from urllib.parse import urlsplit


def address_problem(url: str) -> str:
    """What is wrong with a server's address; empty when nothing is."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    return "" if usable else "must be like http://HOST:PORT/v1 or https://HOST/v1"
