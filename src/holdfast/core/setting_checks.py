"""Checks for settings that are texts.

Each check returns the text, or raises a `ValueError` that says what is expected. No check uses the network or
reads a file.
"""

import difflib
import ipaddress
import json
import re
from urllib.parse import urlsplit

from holdfast.core.secret import Secret
from holdfast.core.server_url import is_address

RULE_KIND = re.compile(r"[A-Za-z0-9_*-]+")
RULE_KINDS = ("command", "read", "write", "fetch")
SERVER_TOOL = re.compile(r"[A-Za-z0-9_-]+?__[A-Za-z0-9_*-]+")
BEGINNINGS = {
    "read": (("/", "*", "?", "["), "a whole path, from / on"),
    "write": (("/", "*", "?", "["), "a whole path, from / on"),
    "fetch": (("http", "*", "?", "["), "an address that begins with http:// or https://"),
}
"""How the patterns of each kind must begin. A pattern with another beginning would match nothing."""
HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*\.?")
ROOT_PATH = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")
OWN_PATHS = ("/api", "/v1")
MIN_PREFIX_BITS = {4: 8, 6: 7}
"""The widest private networks, 10.0.0.0/8 and fc00::/7, in bits."""
PROVIDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*|[A-Za-z_][\w.]*:[A-Za-z_]\w*")
ZONE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
CHAT_ACCOUNT = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,39}=)?[a-z][a-z0-9_-]{0,39}")
FILE_AFTER = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,39}=)?[0-9]{1,4}")
HEADER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
OTHER_HEADERS = frozenset(
    {
        *("authorization", "cookie", "host", "origin", "forwarded", "connection", "content-length"),
        *("content-type", "transfer-encoding", "x-request-id"),
        *("x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"),
    }
)
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")


def split_rule(text: str) -> tuple[str, str]:
    """The kind and the pattern of an allow rule."""
    kind, colon, pattern = text.partition(":")
    if not colon or not RULE_KIND.fullmatch(kind) or not pattern.strip():
        raise ValueError(f"an allow rule is KIND:PATTERN, such as command:git status*, not {text!r}")
    if kind not in RULE_KINDS and not SERVER_TOOL.fullmatch(kind):
        close = difflib.get_close_matches(kind.lower(), RULE_KINDS, n=1)
        raise ValueError(
            f"the kind of an allow rule is {', '.join(RULE_KINDS)} or SERVER__TOOL (for MCP), not {kind!r}"
            + (f"; is {close[0]!r} meant?" if close else "")
        )
    return kind, pattern.strip()


def allow_rule(text: str) -> str:
    kind, pattern = split_rule(text)
    beginnings, right = BEGINNINGS.get(kind, (("",), ""))
    if not pattern.startswith(beginnings):
        raise ValueError(f"a {kind} rule is matched against {right}, so {text!r} allows nothing")
    return text


def secret_text(value: object) -> Secret:
    """A key or a token."""
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("must be a text")  # noqa: TRY004 - pydantic reports a ValueError
    # Whitespace around a key comes from copying; no key contains it.
    return Secret(value.strip())


def split_list(text: str) -> list[object]:
    """A list that is written in one text: as JSON, or with commas."""
    if text.lstrip().startswith("["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None  # an address of IPv6 begins with a bracket too
        if isinstance(found, list):
            return found
    return [name for each in text.split(",") if (name := each.strip())]


def printable(text: str) -> str:
    """A name or a path: one line, without control characters."""
    if UNPRINTABLE.search(text):
        raise ValueError("must not hold line ends or control characters")
    return text


def host_name(text: str) -> str:
    """The name or address of a machine, without a port."""
    if is_address(text.removeprefix("[").removesuffix("]")) or _is_name(text):
        return text
    raise ValueError(f"must be a name or an address without a port or a path, not {text!r}")


def listening_address(text: str) -> str:
    if is_address(text) or _is_name(text):
        return text
    raise ValueError(f"must be an address or a name such as 127.0.0.1, ::1 or localhost, not {text!r}")


def origin(text: str) -> str:
    """The origin of a page, as a browser sends it."""
    try:
        parts = urlsplit(text)
        bare = not (parts.path.strip("/") or parts.query or parts.fragment or parts.username)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and bare
    except ValueError:
        usable = False
    if not usable:
        raise ValueError(f"must be like https://NAME or http://NAME:PORT, without a path, not {text!r}")
    return text


def network(text: str) -> str:
    """An IP address, or a network that is small enough to belong to one owner."""
    try:
        found = ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(
            f"must be an address or a network, such as 127.0.0.1, 10.0.0.0/8 or fd00::/8, not {text!r}"
        ) from None
    if found.prefixlen < MIN_PREFIX_BITS[found.version]:
        raise ValueError(f"{text} makes strangers proxies, who could claim any address; name your own")
    return text


def header_name(text: str) -> str:
    """The name of an HTTP header that a proxy sets for this server alone."""
    if text and (not HEADER_NAME.fullmatch(text) or text.lower() in OTHER_HEADERS):
        raise ValueError(f"must be the name of a header of its own, such as X-Forwarded-User, not {text!r}")
    return text


def issuer_address(text: str) -> str:
    """The address of an issuer of sign-ins, exactly as it writes it in its tokens."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        loopback = host == "localhost" or (is_address(host) and ipaddress.ip_address(host).is_loopback)
        bare = not (parts.query or parts.fragment or parts.username) and parts.port != 0
        usable = bool(host) and bare and (parts.scheme == "https" or (parts.scheme == "http" and loopback))
    except ValueError:
        usable = False
    if not usable or UNPRINTABLE.search(text):
        raise ValueError(f"must be like https://NAME/PATH, without a query, not {text!r}")
    return text


def path_prefix(text: str) -> str:
    """The prefix that a proxy puts before every path, without a slash at its end."""
    path = text.rstrip("/")
    if not path:
        return ""
    if not ROOT_PATH.fullmatch(path) or any(part in (".", "..") for part in path.split("/")):
        raise ValueError(f"must be like /holdfast, with letters, digits, '.', '_', '~' and '-', not {text!r}")
    if path.startswith(OWN_PATHS) and f"{path}/".startswith(tuple(f"{own}/" for own in OWN_PATHS)):
        raise ValueError(f"must not begin with {' or '.join(OWN_PATHS)}, which are paths of the API itself")
    return path


def provider_name(text: str) -> str:
    """The name of a memory provider."""
    if PROVIDER.fullmatch(text) or (text.startswith("hermes:") and text != "hermes:"):
        return printable(text)
    raise ValueError(f"must be the name of a provider, module:Class or hermes:FOLDER, not {text!r}")


def chat_account(text: str) -> str:
    """An account of a chat platform: PLATFORM, or NAME=PLATFORM."""
    if account_parts(text)[0] == "user":
        # The scopes of the installation's own accounts begin with it.
        raise ValueError("must have another name than user, which is taken")
    if CHAT_ACCOUNT.fullmatch(text):
        return text
    raise ValueError(f"must be a platform such as telegram, or NAME=PLATFORM in small letters, not {text!r}")


def file_after_rule(text: str) -> str:
    """A number of messages: for all accounts, or ACCOUNT=NUMBER."""
    if FILE_AFTER.fullmatch(text):
        return text
    raise ValueError(f"must be a number of messages, or ACCOUNT=NUMBER, not {text!r}")


def account_parts(account: str) -> tuple[str, str]:
    """The name and the platform of an account: `telegram`, or `work=telegram`."""
    name, equals, platform = account.partition("=")
    return (name, platform) if equals else (account, account)


def store_url(text: str) -> str:
    """The URL of the store. Errors never repeat it, because it may hold a password."""
    scheme, separator, rest = text.partition("://")
    fits = (scheme == "sqlite" and rest.startswith("/") and len(rest) > 1) or scheme in (
        "postgresql",
        "postgres",
    )
    if text and not (separator and fits):
        raise ValueError(
            "must be sqlite:///PATH (four slashes for an absolute one) or postgresql://HOST/DATABASE"
        )
    return printable(text)


def _is_name(text: str) -> bool:
    # A text of digits and dots was meant as an address.
    return bool(HOST_NAME.fullmatch(text)) and len(text) <= 254 and not re.fullmatch(r"[\d.]+", text)  # noqa: PLR2004


def zone_name(name: str) -> str:
    """The name of a time zone, as the database of time zones has it; empty for none."""
    if name and not ZONE_NAME.fullmatch(name):
        raise ValueError(f"must be the name of a time zone, such as Europe/Berlin, not {name!r}")
    return name
