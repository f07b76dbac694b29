"""Where a model server is and how to reach it, and the loading of a client library off the event loop."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from holdfast.core.address import address_problem
from holdfast.core.errors import InvalidInput
from holdfast.core.secret import Secret
from holdfast.process import DaemonPool, off_loop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Server:
    """An address, the key for it, and how long to wait for it."""

    base_url: str
    key: Secret | None = None
    connect_seconds: float = 10.0
    stall_seconds: float = 300.0
    """The longest silence within an answer, and before it: a long prompt is read in silence."""

    def __post_init__(self) -> None:
        if problem := address_problem(self.base_url):
            raise InvalidInput(f"the model server's address {problem}")
        # Such a key can't be sent, and the error of the HTTP library would show it.
        if self.key and not (self.key.reveal().isascii() and self.key.reveal().isprintable()):
            raise InvalidInput("the model server's key holds characters that no key can have")

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    @property
    def is_local(self) -> bool:
        """Whether it is this machine: then no proxy stands between."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown(self) -> str:
        """The address without anything secret in it."""
        parts = urlsplit(self.base_url)
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{self.host}{port}{parts.path}"


async def loaded(what: str, load: Callable[[], T]) -> T:
    """Run `load` on a thread: importing a client library takes a second, and an interrupt can't wait."""
    pool = DaemonPool(f"loading {what}", workers=1, backlog=0)
    try:
        return await off_loop(pool, load)
    finally:
        pool.close(0)
