"""`holdfast web`: the page and the HTTP API of the assistant, on this machine."""

import asyncio
import gc
import sys
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from cyclopts import Parameter

from holdfast.core.errors import InvalidInput
from holdfast.core.events import Event, TurnCompleted
from holdfast.core.secret import Secret
from holdfast.core.settings import Settings, WebSettings
from holdfast.process import run
from holdfast.web.workers import require_workers

SOURCE = "web"
THRESHOLDS = (100_000, 10, 5)
"""The garbage collector's thresholds for its three generations."""
TOKEN_FILE = "web-token"  # noqa: S105 - the name of a file


def web(  # noqa: PLR0913 - the options of a command
    *,
    host: Annotated[str, Parameter(name="--host")] = "",
    port: Annotated[int | None, Parameter(name="--port")] = None,
    open_browser: Annotated[bool, Parameter(name="--open", negative="")] = False,
    workspace: Annotated[str, Parameter(name="--workspace")] = "",
    gateway: Annotated[bool, Parameter(name="--gateway", negative="")] = False,
    workers: Annotated[int, Parameter(name="--workers")] = 1,
    inherited: Annotated[int | None, Parameter(name="--socket", show=False)] = None,
) -> None:
    """Serve the web page and the HTTP API until Ctrl-C.

    Parameters
    ----------
    host
        The address to listen on. Outside loopback, the setting web.authentication must be token.
    port
        The port to listen on; 0 takes a free one.
    open_browser
        Open the page in a browser.
    workspace
        The folder that the agent works in; by default the current folder.
    gateway
        Serve the chat accounts that are set up too, as `holdfast gateway` does.
    workers
        How many processes serve; more than one needs a store on PostgreSQL.
    inherited
        The socket that a worker of another process takes its connections from.

    """
    from holdfast.wiring import load_settings
    from holdfast.wiring.workspace import with_workspace, workspace_of

    settings = with_workspace(load_settings(), workspace)
    workspace_of(settings).require_trusted()
    given = {"host": host or settings.web.host, "port": settings.web.port if port is None else port}
    chosen = WebSettings.model_validate({**dict(settings.web), **given})
    settings = settings.model_copy(update={"web": chosen})
    require_workers(workers, settings.store)
    if workers == 1:
        run(_serve(settings, ServeOptions(open_browser, gateway, inherited)))
        return
    options = [f"--host={host}", *([f"--workspace={workspace}"] if workspace else ())]
    options += [] if port is None else [f"--port={port}"]
    run(_serve_with_workers(settings, workers, [*options, *(["--gateway"] if gateway else ())], open_browser))


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What one process does besides serving; `inherited` is the socket of a worker."""

    open_browser: bool
    gateway: bool
    inherited: int | None


async def _serve_with_workers(
    settings: Settings, workers: int, options: list[str], open_browser: bool
) -> None:
    from holdfast.process.http_server import listen
    from holdfast.web.workers import Workers, WorkersFailed
    from holdfast.wiring.service_manager import READY, tell_service_manager

    token = token_for(settings.web)
    listening = listen(settings.web.host, settings.web.port)
    listening.set_inheritable(True)
    link = Link(settings.web.host, listening.getsockname()[1], token, settings.web.root_path)

    def announce() -> None:
        _say(f"{workers} workers serve")
        _announce(link, (), "")
        _announce_names(link, settings.web)
        tell_service_manager(READY)
        if open_browser:
            _open(link)

    try:
        with listening:
            await Workers(listening, options, settings.exit.watchdog_s).serve(workers, announce)
    except WorkersFailed as failed:
        raise SystemExit(failed.code) from None


async def _serve(settings: Settings, options: ServeOptions) -> None:
    from holdfast.process.http_server import listen
    from holdfast.process.listen_socket import room_for_streams
    from holdfast.web.app import PAGE
    from holdfast.web.chat_service import chat_service, serving_chats
    from holdfast.web.contract import WebParts, tell_nobody
    from holdfast.web.page_files import page_problem
    from holdfast.web.server import inherit, run_server
    from holdfast.web.streams import OpenStreams
    from holdfast.web.workers import listen_to_parent, tell_model, tell_ready
    from holdfast.wiring.graceful_stop import open_host
    from holdfast.wiring.service_manager import READY, tell_service_manager

    token = token_for(settings.web)
    chats = await chat_service(settings) if options.gateway else None
    is_worker = options.inherited is not None
    if options.inherited is not None:
        listening = inherit(options.inherited)
    else:
        listening = listen(settings.web.host, settings.web.port)
    link = Link(settings.web.host, listening.getsockname()[1], token, settings.web.root_path)
    # Without a model the page is where a person learns what is missing.
    opened = open_host(
        settings,
        source=SOURCE,
        say=_say,
        after_crash="resume",
        model_required=False,
    )
    async with opened as (hosted, leaving):
        streams = OpenStreams(room_for_streams(settings.web.streams))
        on_model = tell_model if is_worker else tell_nobody
        parts = WebParts(hosted, settings.web, token, streams, on_model=on_model)
        hosted.watch(_freeze_after_first_turn)
        hosted.serve_schedules()
        async with run_server(parts, listening) as running, serving_chats(chats, hosted, _say):
            if is_worker:
                listen_to_parent(
                    asyncio.get_running_loop(),
                    # An empty name is that of the settings.
                    lambda name: parts.background.spawn(
                        hosted.switch_model(name) if name else hosted.reload_model()
                    ),
                )
                tell_ready()
            else:
                problems = (*hosted.overview.problems, page_problem(PAGE))
                _announce(link, problems, hosted.model.notice if hosted.model else "")
                _announce_names(link, settings.web)
                tell_service_manager(READY)
            if options.open_browser:
                _open(link)
            await leaving.wait_for(running)
            _say("shutting down")
            # At once, beside the requests that are still answered.
            parts.streams.close()
            hosted.hand_over()
        if running.done() and not running.cancelled() and not leaving.requested.is_set():
            running.result()
    leaving.raise_signal()


def _freeze_after_first_turn(event: Event) -> None:
    """Spare the garbage collector what lives as long as the program, once the first turn has imported it.

    Scanning it took a seventh of a busy server's time, in pauses of a tenth of a second. The thresholds are
    raised too, because many chats at once make many objects that live.
    """
    if isinstance(event, TurnCompleted) and gc.get_threshold() != THRESHOLDS:
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)


@dataclass(frozen=True, slots=True)
class Link:
    """Where the page is, and the token that opens it."""

    host: str
    port: int
    token: Secret
    root_path: str = ""

    @property
    def address(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}{self.root_path}/"

    def reveal(self, address: str = "") -> str:
        """The link that opens the page; `address` is another address of this server."""
        token = self.token.reveal()
        where = address or self.address
        return f"{where}?token={quote(token, safe='')}" if token else where


def token_for(settings: WebSettings) -> Secret:
    """The token that clients must show; refuses settings that would let anybody in."""
    from holdfast.process.origin_guard import is_loopback
    from holdfast.wiring import data_folder
    from holdfast.wiring.token_file import stored_token

    if not is_loopback(settings.host) and settings.authentication != "token":
        raise InvalidInput(
            f"{settings.host} can be reached from other machines, and authentication is not on for them. "
            "Nothing was started. Listen on 127.0.0.1, or set HOLDFAST_WEB_AUTHENTICATION=token: then every "
            "client must show the token. Put a proxy with TLS in front, or others on the network can read it."
        )
    if settings.authentication == "none":
        return Secret("")
    return settings.token or stored_token(data_folder() / TOKEN_FILE)


def _announce(link: Link, problems: tuple[str, ...], notice: str) -> None:
    for line in (notice, *(f"! {problem}" for problem in problems if problem)):
        if line:
            _say(line)
    _say(f"Holdfast listens on {link.address}; the API is described at {link.address}openapi.json")
    _say("Ctrl-C ends it. Open this link once in your browser:")
    sys.stdout.write(f"{link.reveal()}\n")
    sys.stdout.flush()


def _announce_names(link: Link, settings: WebSettings) -> None:
    """The same link by the names of the proxies in front."""
    if not settings.trusted_proxies or not settings.allowed_hosts:
        return
    _say("Through the proxy it is:")
    for name in settings.allowed_hosts:
        sys.stdout.write(f"{link.reveal(f'https://{name}{settings.root_path}/')}\n")
    sys.stdout.flush()


def _open(link: Link) -> None:
    import webbrowser

    if not webbrowser.open(link.reveal()):
        _say("no browser could be opened; open the link yourself")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
