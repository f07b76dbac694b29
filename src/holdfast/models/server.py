"""`Server`: the address of a model server."""

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.core.server_url import server_url_problem


@dataclass(frozen=True, slots=True)
class Server:
    """An address, the key for it, and how long to wait for it."""

    base_url: str
    key: Secret | None = None
    connect_seconds: float = 10.0
    stall_seconds: float = 300.0
    """The longest silence before and within an answer. A server is silent while it reads a long prompt."""

    def __post_init__(self) -> None:
        if problem := server_url_problem(self.base_url):
            raise InvalidInput(f"the model server's address {problem}")
        # Such a key can't be sent, and the error of the HTTP library would show the key.
        if self.key and not (self.key.reveal().isascii() and self.key.reveal().isprintable()):
            raise InvalidInput("the model server's key contains characters that no key can have")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine; then no proxy is used."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def display_url(self) -> str:
        """The URL without user name, password and query."""
        parts = urlsplit(self.base_url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{self.host}{port}{parts.path}"
