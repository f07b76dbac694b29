"""`holdfast web`: the page and the HTTP API of the assistant, on this machine."""

import asyncio
import gc
import sys
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from holdfast.core.errors import InvalidInput
from holdfast.core.events import Event, TurnCompleted
from holdfast.core.secret import Secret
from holdfast.core.settings import Settings, WebSettings

SOURCE = "web"
THRESHOLDS = (100_000, 10, 5)
"""When the collector looks: after so many new objects, and after so many looks at younger ones."""
TOKEN_FILE = "web-token"  # noqa: S105 - the name of a file


def web(
    *,
    host: Annotated[str, Parameter(name="--host")] = "",
    port: Annotated[int | None, Parameter(name="--port")] = None,
    open_browser: Annotated[bool, Parameter(name="--open", negative="")] = False,
) -> None:
    """Serve the web page and the HTTP API until Ctrl-C.

    Parameters
    ----------
    host
        The address to listen on. Another than loopback needs the setting web.authentication to be token.
    port
        The port to listen on; 0 takes a free one.
    open_browser
        Open the page in a browser.

    """
    from holdfast.wiring import load_settings

    settings = load_settings()
    given = {"host": host or settings.web.host, "port": settings.web.port if port is None else port}
    chosen = WebSettings.model_validate({**dict(settings.web), **given})
    asyncio.run(_serve(settings.model_copy(update={"web": chosen}), open_browser))


async def _serve(settings: Settings, open_browser: bool) -> None:
    from holdfast.web.contract import Web
    from holdfast.web.serving import bind, serving
    from holdfast.web.streaming import OpenStreams
    from holdfast.wiring import list_models
    from holdfast.wiring.leaving import host_run

    token = token_for(settings.web)
    listening = bind(settings.web.host, settings.web.port)
    link = Link(settings.web.host, listening.getsockname()[1], token)
    async with host_run(settings, source=SOURCE, say=_say) as (hosted, leaving):
        parts = Web(
            hosted,
            settings.web,
            token,
            OpenStreams(settings.web.streams),
            list_models=partial(list_models, settings),
        )
        hosted.watch(_Freezing())
        async with serving(parts, listening) as running:
            _announce(link, hosted.problems, hosted.model.notice if hosted.model else "")
            if open_browser:
                _open(link)
            asked = asyncio.ensure_future(leaving.asked.wait())
            await asyncio.wait([asked, running], return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            _say("shutting down")
        if running.done() and not running.cancelled() and not leaving.asked.is_set():
            running.result()
    leaving.raise_signal()


class _Freezing:
    """After the first turn all is imported: what lives as long as the program is collected no more.

    Looking through it again and again took a seventh of a busy server's time, a tenth of a second at once.
    What chats leave in cycles is looked for less often too: a crowd of them makes many objects that live.
    """

    def __init__(self) -> None:
        self._done = False

    def __call__(self, event: Event) -> None:
        if not self._done and isinstance(event, TurnCompleted):
            self._done = True
            gc.freeze()
            gc.set_threshold(*THRESHOLDS)


@dataclass(frozen=True, slots=True)
class Link:
    """Where the page is, and the token that opens it."""

    host: str
    port: int
    token: Secret

    @property
    def address(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/"

    def reveal(self) -> str:
        token = self.token.reveal()
        return f"{self.address}?token={quote(token, safe='')}" if token else self.address


def token_for(settings: WebSettings) -> Secret:
    """The token that clients must show; refuses what would let strangers in."""
    from holdfast.web.auth import kept_token
    from holdfast.web.doors import is_loopback
    from holdfast.wiring import data_folder

    if not is_loopback(settings.host) and settings.authentication != "token":
        raise InvalidInput(
            f"{settings.host} can be reached from other machines, and authentication is not on for them. "
            "Nothing was started. Listen on 127.0.0.1, or set HOLDFAST_WEB_AUTHENTICATION=token: then every "
            "client must show the token. Put a proxy with TLS in front, or whoever listens can read it."
        )
    if settings.authentication == "none":
        return Secret("")
    return settings.token or kept_token(data_folder() / TOKEN_FILE)


def _announce(link: Link, problems: tuple[str, ...], notice: str) -> None:
    for line in (notice, *(f"! {problem}" for problem in problems)):
        if line:
            _say(line)
    _say(f"Holdfast listens on {link.address}; the API is described at {link.address}openapi.json")
    _say("Ctrl-C ends it. Open this link once in your browser:")
    sys.stdout.write(f"{link.reveal()}\n")
    sys.stdout.flush()


def _open(link: Link) -> None:
    import webbrowser

    if not webbrowser.open(link.reveal()):
        _say("no browser could be opened; open the link yourself")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
