"""Signing in to remote MCP servers with OAuth, by the SDK's means.

`holdfast mcp login` asks the person to open an address in a browser and keeps what the server gives: the
registration of this client and its tokens, in a file for each server that only its owner may read. Afterwards
every connection uses them, and renews them when they run out. Nobody is asked to sign in during a turn.
"""

import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import ToolInvalid
from holdfast.core.ids import new_id
from holdfast.core.settings import McpServerSettings

if TYPE_CHECKING:
    from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

SIGN_INS = "mcp-sign-ins"
SIGN_IN_SECONDS = 300.0
"""How long a person may take in the browser."""
ANY_PORT = "http://127.0.0.1/callback"
"""Stands for the address of the browser's answer where nobody signs in."""


@dataclass(frozen=True, slots=True)
class BrowserSignIn:
    """How a person signs in now."""

    redirect_uri: str
    """Where the browser is sent back to."""
    show: Callable[[str], Awaitable[None]]
    """Tells the person which address to open."""
    answer: "Callable[[], Awaitable[AuthorizationCodeResult]]"
    """Waits until the browser was sent back."""


@dataclass(frozen=True, slots=True)
class SignIns:
    """The sign-ins that are kept in a folder; `browser` is there only while a person signs in."""

    folder: Path
    browser: BrowserSignIn | None = None

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def forget(self, name: str) -> bool:
        """Forget a sign-in; whether there was one."""
        try:
            self.file(name).unlink()
        except FileNotFoundError:
            return False
        return True

    def provider(self, server: McpServerSettings) -> "OAuthClientProvider | None":
        """What signs the requests to a server; None when nobody has signed in and nobody is asked to."""
        from mcp.client.auth import OAuthClientProvider
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        if self.browser is None and not self.file(server.name).exists():
            return None
        kept = SignInFile(self.file(server.name), server, fresh=self.browser is not None)
        uri = ANY_PORT if self.browser is None else self.browser.redirect_uri

        async def refuse(_: str) -> None:
            raise ToolInvalid(server.name, sign_in_hint(server.name))

        provider = OAuthClientProvider(
            server.url,
            OAuthClientMetadata(client_name="Holdfast", redirect_uris=[AnyUrl(uri)]),
            kept,
            redirect_handler=refuse if self.browser is None else self.browser.show,
            callback_handler=None if self.browser is None else self.browser.answer,
        )
        kept.context = provider.context
        return provider


def sign_in_hint(name: str) -> str:
    """What a person does about a server that wants a sign-in."""
    return f"it wants you to sign in: `holdfast mcp login {name}`"


class SignInFile:
    """What a server gave at a sign-in, as the SDK's storage. It is written when there are tokens."""

    def __init__(self, file: Path, server: McpServerSettings, *, fresh: bool) -> None:
        """With `fresh`, what is there is not used; it is replaced once the sign-in is done."""
        self.context: OAuthContext | None = None
        self._file = file
        self._url = server.url
        self._client: OAuthClientInformationFull | None = None
        self._kept: dict[str, Any] = {} if fresh else _read(file, server.url)

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthMetadata, OAuthToken

        if not self._kept:
            return None
        if self.context is not None:
            # The SDK does not ask for these, and without them it could not renew a token after a restart.
            self.context.token_expiry_time = self._kept["expires"]
            if self._kept["server"] is not None:
                self.context.oauth_metadata = OAuthMetadata.model_validate(self._kept["server"])
        return OAuthToken.model_validate(self._kept["tokens"])

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        if self._client is None and self._kept:
            self._client = OAuthClientInformationFull.model_validate(self._kept["client"])
        return self._client

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        self._client = client_info

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        context = self.context
        metadata = None if context is None else context.oauth_metadata
        self._kept = {
            "url": self._url,
            "client": None if self._client is None else self._client.model_dump(mode="json"),
            "tokens": tokens.model_dump(mode="json"),
            "expires": None if context is None else context.token_expiry_time,
            "server": None if metadata is None else metadata.model_dump(mode="json"),
        }
        _write(self._file, json.dumps(self._kept))


def _read(file: Path, url: str) -> dict[str, Any]:
    """What is kept for a server of this address; empty when it is another's, or damaged."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    whole = isinstance(kept, dict) and {"client", "tokens", "expires", "server"} <= kept.keys()
    return kept if whole and kept.get("url") == url and kept["client"] else {}


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    written = file.with_name(f".{new_id()}.tmp")
    with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as fresh:
        fresh.write(text)
    written.replace(file)
