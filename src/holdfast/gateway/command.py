"""`holdfast gateway`: serve the chat platforms that are set up, set them up, see how they stand."""

import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.core.clean_text import clean
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import Settings
from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.chat_people import ROLES, Role
from holdfast.sessions.contract import SECOND

SOURCE = "gateway"
SHOWN_REFUSED = 5

gateway = App(name="gateway", help="Chat platforms: serve, set up, see how they stand.")
gateway.command(
    "holdfast.gateway.setup_command:setup", name="setup", help="Set up an account on a chat platform."
)


@gateway.default
def serve(*, workspace: Annotated[str, Parameter(name="--workspace")] = "") -> None:
    """Serve every chat account that is set up, until Ctrl-C.

    Parameters
    ----------
    workspace
        The folder that the agent works in; by default the current folder.

    """
    from holdfast.wiring import load_settings
    from holdfast.wiring.workspace import with_workspace, workspace_of

    settings = with_workspace(load_settings(), workspace)
    workspace_of(settings).require_trusted()
    run(_serve(settings))


async def _serve(settings: Settings) -> None:
    from holdfast.gateway.gateway_service import GatewayService
    from holdfast.wiring.graceful_stop import open_host
    from holdfast.wiring.service_manager import READY, tell_service_manager

    service = await GatewayService.open(settings)
    opened = open_host(
        settings,
        source=SOURCE,
        say=_say,
        after_crash="resume",
        model_required=False,
    )
    async with opened as (host, leaving):
        host.serve_schedules()
        async with service.running(host, _say) as running:
            for problem in host.overview.problems:
                _say(f"! {problem}")
            tell_service_manager(READY)
            await leaving.wait_for(running)
            _say("shutting down")
        if running.done() and not running.cancelled() and not leaving.requested.is_set():
            running.result()
            raise InvalidInput("no account is left to serve; see the messages above")
    leaving.raise_signal()


@gateway.command
def status() -> None:
    """Print how each account stands: who serves it, what waits, what could not be delivered."""
    settings, accounts = _accounts()
    with _store(settings) as db:
        for name, platform in accounts:
            for line in _status_lines(db, name, platform):
                _show(line)


def _status_lines(db: SessionDB, name: str, platform: str) -> Iterable[str]:
    from holdfast.sessions.chat_events import account_lease

    held = db.leases.current(account_lease(name)) is not None
    events, posts = db.chat_events.counts(name), db.chat_posts.counts(name)
    cursor = db.chat_events.cursors(name).get("", "")
    yield f"{name} ({platform}): {'served by a running gateway' if held else 'no gateway is running'}"
    refused, new = events.get("refused", 0), events.get("new", 0)
    yield f"  received {sum(events.values())}: {new} wait, {refused} were refused"
    if cursor:
        yield f"  received up to {cursor}"
    waiting, failed = posts.get("due", 0) + posts.get("open", 0), posts.get("failed", 0)
    yield f"  sent {posts.get('sent', 0)}, {waiting} on the way, {failed} could not be delivered"
    for post in db.chat_posts.failed(name):
        yield f"  {post.id}: {post.kind}: {post.error}  (holdfast gateway retry {post.id}, or drop {post.id})"
    for event in db.chat_events.refused(name, limit=SHOWN_REFUSED):
        yield f"  not answered: {event.note} (from {event.sender or 'nobody'}, {_when(event.sent)})"
    for pairing in db.chat_people.pairings(name):
        yield f"  {pairing.name or pairing.person} asks to be let in: holdfast gateway approve {pairing.code}"


@gateway.command
def approve(code: str, /, *, role: Role = "user") -> None:
    """Let in the person who has this pairing code.

    Parameters
    ----------
    code
        The code that the bot gave to the person.
    role
        owner: as in the terminal; user: own conversations, memory and files; guest: no commands, no files.

    """
    settings, _ = _accounts()
    with _store(settings) as db:
        person = db.chat_people.approve(code.strip().upper(), role)
    if person is None:
        raise InvalidInput("no stranger has this code now; codes are for an hour, and `status` lists them")
    _show(f"{person.name or person.person} may talk on {person.account} as {person.role}.")


@gateway.command
def people() -> None:
    """List who may talk, and in which role."""
    settings, accounts = _accounts()
    with _store(settings) as db:
        for name, _ in accounts:
            for each in db.chat_people.list(name):
                _show(f"{name}  {each.person}  {each.role}  {each.name}")


@gateway.command(name="allow")
def allow(account: str, person: str, /, *, role: Role = "user") -> None:
    """Let a person in by the platform's own id, or change their role."""
    settings, accounts = _accounts()
    if account not in dict(accounts):
        raise InvalidInput(f"there is no account {account!r}; set up: {', '.join(dict(accounts))}")
    if role not in ROLES:
        raise InvalidInput(f"a role is one of {', '.join(ROLES)}")
    with _store(settings) as db:
        db.chat_people.put(account, person, role)
    _show(f"{person} may talk on {account} as {role}." if role != "blocked" else f"{person} is blocked.")


@gateway.command
def forbid(account: str, person: str, /) -> None:
    """Take a person's right to talk back; they become a stranger."""
    settings, _ = _accounts()
    with _store(settings) as db:
        if not db.chat_people.remove(account, person):
            raise InvalidInput(f"{person} is not known on {account}; `holdfast gateway people` lists all")
    _show(f"{person} is a stranger on {account} now.")


@gateway.command
def retry(post: int, /) -> None:
    """Send again what could not be delivered."""
    settings, _ = _accounts()
    with _store(settings) as db:
        db.chat_posts.retry(post)


@gateway.command
def drop(post: int, /) -> None:
    """Give up what could not be delivered."""
    settings, _ = _accounts()
    with _store(settings) as db:
        db.chat_posts.drop(post)


def _when(moment: int) -> str:
    return f"{datetime.fromtimestamp(moment / SECOND, UTC).astimezone():%Y-%m-%d %H:%M}"


def _accounts() -> tuple[Settings, list[tuple[str, str]]]:
    from holdfast.gateway.platforms import require_accounts
    from holdfast.wiring import load_settings

    settings = load_settings()
    require_accounts(settings.gateway)
    return settings, list(settings.gateway.platforms.items())


def _store(settings: Settings) -> SessionDB:
    from holdfast.wiring import open_store

    return open_store(settings)


def _show(line: str) -> None:
    """Print a result; names and errors come from other people."""
    sys.stdout.write(f"{clean(line)}\n")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
