"""`holdfast users`: accounts, what lets them in, and the audit log. See docs/users.md."""

from dataclasses import asdict, replace
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.memory_forget import forget_conversation
from holdfast.cli.output import show, show_json, width
from holdfast.cli.session_lookup import day
from holdfast.core.clean_text import one_line
from holdfast.core.errors import HoldfastError, InvalidInput, UserInUse, UserNotFound
from holdfast.core.sizes import parse_size, size_text
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import CHAT_ISSUER, User, UserChanges, UserRole, UserToken
from holdfast.wiring import existing_store, forget_outputs, load_settings, open_store

DAY = 86_400.0
ONCE = "It is shown this once. Whoever has it is let in."

Json = Annotated[bool, Parameter(name="--json", negative="")]
Flag = Annotated[bool, Parameter(negative="")]
Name = Annotated[str, Parameter(help="The account's name, in any case, or its id.")]

users = App(
    name="users", help="Accounts: add, list, change, disable, remove; tokens, invitations, audit log."
)

users.command(
    "holdfast.cli.user_sign_ins:password",
    name="password",
    help="Give an account a password for the page, or take it away.",
)
users.command(
    "holdfast.cli.user_sign_ins:link_sign_in",
    name="link-sign-in",
    help="Let somebody who is signed in elsewhere be an account.",
)
users.command(
    "holdfast.cli.user_sign_ins:unlink_sign_in",
    name="unlink-sign-in",
    help="Take such a link back.",
)


@users.command
def add(
    name: str,
    /,
    *,
    role: UserRole = "user",
    token_label: str = "",
    daily_turns: int | None = None,
    daily_tokens: int | None = None,
    storage: str | None = None,
) -> None:
    """Add an account and print a token that lets it in.

    Parameters
    ----------
    name
        One line of at most 80 characters; names that differ only in case are the same.
    role
        admin (manages accounts), user (own files; commands after approval) or guest (neither).
    token_label
        What the token is called in the list of tokens.
    daily_turns
        How many turns may begin within 24 hours; without it any number.
    daily_tokens
        How many tokens of the model the turns of 24 hours may use; without it any number.
    storage
        How much its conversations may keep, 200MB say; without it any amount.

    """
    limit = None if storage is None else _storage(storage)
    with open_store(load_settings()) as db:
        made = db.users.create(
            name, role, daily_turns=daily_turns, daily_tokens=daily_tokens, storage_limit=limit
        )
        secret, _ = db.users.issue_token(made.id, token_label)
    show(f"added {made.name} ({made.role}), account {made.id}")
    _show_secret(secret)


@users.default
def list_users(*, as_json: Json = False) -> None:
    """List the accounts.

    Parameters
    ----------
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        found = [_measured(db, each) for each in db.users.list()]
        linked = {each.id: db.users.identities(each.id) for each in found}
    if as_json:
        show_json(
            [{**asdict(each), "identities": [asdict(one) for one in linked[each.id]]} for each in found]
        )
        return
    for each in found:
        elsewhere = ", ".join(f"{one.issuer} {one.subject}" for one in linked[each.id])
        show(
            one_line(f"{each.id}  {each.name}  {_state(each)}  {elsewhere}".rstrip(), width(), squeeze=False)
        )
    if not found:
        show("There are no accounts; everything is the owner's. Add one: holdfast users add NAME")


users.command(list_users, name="list")


@users.command(name="show")
def show_user(name: Name, /, *, as_json: Json = False) -> None:
    """Show one account: its role and state, what it has used, and what it may.

    Parameters
    ----------
    name
        The account's name or id.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        found = _measured(db, _find(db, name))
        turns = db.turns.turns_begun(found.scope, DAY)
        tokens_used = db.turns.tokens_used(found.scope, DAY)
    if as_json:
        show_json({**asdict(found), "turns_used": turns, "tokens_used": tokens_used})
        return
    state = "enabled" if found.disabled is None else f"disabled since {day(found.disabled)}"
    show(f"{found.name} ({found.role}), {state}, account {found.id}")
    show(f"turns of 24 hours: {turns:,} of {_limit(found.daily_turns)}")
    show(f"tokens of 24 hours: {tokens_used:,} of {_limit(found.daily_tokens)}")
    allowed = "any amount" if found.storage_limit is None else size_text(found.storage_limit)
    show(f"storage: {size_text(found.storage_used)} of {allowed}")


@users.command
def change(
    name: Name,
    /,
    *,
    rename: str | None = None,
    role: UserRole | None = None,
    daily_turns: int | None = None,
    daily_tokens: int | None = None,
    storage: str | None = None,
) -> None:
    """Change an account; it counts from its next turn on.

    Parameters
    ----------
    name
        The account's name or id.
    rename
        Its new name.
    role
        admin, user or guest.
    daily_turns
        How many turns may begin within 24 hours; -1: any number.
    daily_tokens
        How many tokens the turns of 24 hours may use; -1: any number.
    storage
        How much its conversations may keep, 200MB say; -1: any amount.

    """
    limit = None if storage is None else _storage(storage)
    wanted = UserChanges(rename, role, daily_turns, daily_tokens, limit)
    if wanted == UserChanges():
        raise InvalidInput("say what to change: --rename, --role, --daily-turns, --daily-tokens or --storage")
    with existing_store(load_settings()) as db:
        changed = db.users.change(_find(db, name).id, wanted)
    show(f"{changed.name}: {_state(changed)}")


@users.command
def disable(name: Name, /) -> None:
    """Let an account do nothing more; what it has stays. A server hears of it within seconds."""
    with existing_store(load_settings()) as db:
        found = _find(db, name)
        db.users.disable(found.id)
    show(f"{found.name} is disabled")


@users.command
def enable(name: Name, /) -> None:
    """Let an account in again, with the tokens that it had."""
    with existing_store(load_settings()) as db:
        found = _find(db, name)
        db.users.enable(found.id)
    show(f"{found.name} is enabled")


@users.command
def remove(name: Name, /, *, delete_conversations: Flag = False) -> None:
    """Remove an account that has no conversations.

    Parameters
    ----------
    name
        The account's name or id.
    delete_conversations
        Delete its conversations for good, and have memory forget them. The files of its workspace stay.

    """
    with existing_store(load_settings()) as db:
        found = _find(db, name)
        mine = db.users.conversations(found.scope)
        if mine and not delete_conversations:
            raise UserInUse(found.name, len(mine))
        # First, so that no conversation begins behind the ones that are deleted.
        db.users.disable(found.id)
        for root in mine:
            forget_conversation(db, root)
            forget_outputs(db.delete_session(root, force=True).sessions)
        db.users.remove(found.id)
    show(f"removed {found.name} and {len(mine)} conversations")


@users.command
def token(name: Name, /, *, label: str = "", days: float | None = None) -> None:
    """Print another token of an account.

    Parameters
    ----------
    name
        The account's name or id.
    label
        What it is called in the list of tokens.
    days
        For how long it counts; without it until it is revoked.

    """
    with existing_store(load_settings()) as db:
        found = _find(db, name)
        secret, issued = db.users.issue_token(found.id, label, None if days is None else days * DAY)
    show(f"token {issued.id} of {found.name}")
    _show_secret(secret)


@users.command
def tokens(name: Name, /, *, as_json: Json = False) -> None:
    """List the tokens of an account, without the secrets.

    Parameters
    ----------
    name
        The account's name or id.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        found = db.users.tokens(_find(db, name).id)
    if as_json:
        show_json([asdict(each) for each in found])
        return
    for each in found:
        show(one_line(f"{each.id}  {each.label or '(no label)'}  {_counts(each)}", width(), squeeze=False))
    if not found:
        show("It has no tokens. Make one: holdfast users token NAME")


@users.command
def revoke(token_id: str, /) -> None:
    """End a token, by its id in the list of tokens. A server hears of it within seconds."""
    with existing_store(load_settings()) as db:
        if not db.users.revoke_token(token_id):
            raise InvalidInput(f"there is no token {token_id!r:.80} that counts; nothing was changed")
    show(f"token {token_id} is revoked")


@users.command
def invite(*, role: UserRole = "user", days: float = 7.0) -> None:
    """Print a code with which one person makes an account.

    Parameters
    ----------
    role
        The role that the account gets.
    days
        For how long the code counts.

    """
    with open_store(load_settings()) as db:
        code = db.users.invite(role, days * DAY)
    show(f"an invitation as {role}, for {days:g} days: the person opens /#/sign-in/invited/CODE on the page")
    _show_secret(code)


@users.command
def link(name: Name, account: str, person: str, /) -> None:
    """Let a person of a chat platform be this account in direct chats.

    Parameters
    ----------
    name
        The account's name or id.
    account
        The account of the chat platform, as the settings name it.
    person
        The platform's own id of the person, as `holdfast gateway people` shows it.

    """
    with existing_store(load_settings()) as db:
        found = _find(db, name)
        db.users.link_identity(found.id, CHAT_ISSUER + account, person)
    show(f"{person} on {account} is {found.name} from the next new chat on")


@users.command
def unlink(account: str, person: str, /) -> None:
    """Take back such a link; conversations that began with it stay the account's."""
    with existing_store(load_settings()) as db:
        if not db.users.unlink_identity(CHAT_ISSUER + account, person):
            raise InvalidInput(f"{person!r:.80} on {account!r:.80} is no account; nothing was changed")
    show(f"{person} on {account} is no account any more")


@users.command
def audit(*, about: str = "", limit: int = 50, as_json: Json = False) -> None:
    """Show the audit log, the newest entry first.

    Parameters
    ----------
    about
        Only what an account did, or what was done to it.
    limit
        How many entries.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        names = {each.scope: each.name for each in db.users.list()}
        found = db.audit.list(about=_find(db, about).scope if about else None, limit=limit)
    if as_json:
        show_json([asdict(each) for each in found])
        return
    for each in found:
        actor, target = (names.get(name, name) for name in (each.actor, each.target))
        line = f"{day(each.at)}  {actor or '(unknown)'}  {each.action}  {target}  {each.detail}"
        show(one_line(line.rstrip(), width(), squeeze=False))
    if not found:
        show("The audit log is empty.")


def _find(db: SessionDB, name: str) -> User:
    found = db.users.by_name(name) or db.users.get(name)
    if found is None:
        raise UserNotFound(name)
    return found


def _state(user: User) -> str:
    words = [user.role if user.disabled is None else f"{user.role}, disabled"]
    if user.daily_turns is not None:
        words.append(f"{user.daily_turns} turns a day")
    if user.daily_tokens is not None:
        words.append(f"{user.daily_tokens} tokens a day")
    if user.storage_used or user.storage_limit is not None:
        limit = "" if user.storage_limit is None else f" of {size_text(user.storage_limit)}"
        words.append(f"{size_text(user.storage_used)}{limit} kept")
    return ", ".join(words)


def _measured(db: SessionDB, user: User) -> User:
    """The account with what it uses now; where the store takes no write, with what was measured last."""
    try:
        return replace(user, storage_used=db.users.measure_storage(user.scope))
    except HoldfastError:
        return user


def _storage(text: str) -> int:
    size = -1 if text.strip() == "-1" else parse_size(text)
    if size is None:
        raise InvalidInput(f"--storage is a size, 200MB say, not {text!r:.80}. Nothing was changed.")
    return size


def _limit(most: int | None) -> str:
    return "any number" if most is None else f"{most:,}"


def _counts(each: UserToken) -> str:
    if each.revoked is not None:
        return f"{each.kind}, revoked {day(each.revoked)}"
    used = f"last used {day(each.last_used)}" if each.last_used is not None else "not used yet"
    until = f", until {day(each.expires)}" if each.expires is not None else ""
    return f"{each.kind}, {used}{until}"


def _show_secret(secret: str) -> None:
    # Alone on its line, so that it can be copied, and on standard output, so that a script can take it.
    show(ONCE)
    show(secret)
