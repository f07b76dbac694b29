"""`holdfast users password`, `link-sign-in` and `unlink-sign-in`: how an account signs in on the page."""

import getpass
import sys
from typing import Annotated

from cyclopts import Parameter

from holdfast.cli.closed_streams import ClosedInput
from holdfast.cli.output import show
from holdfast.core.errors import InvalidInput, UserNotFound
from holdfast.core.secret import Secret
from holdfast.host.passwords import Passwords
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import User
from holdfast.wiring import existing_store, load_settings


def password(
    name: str,
    /,
    *,
    stdin: Annotated[bool, Parameter(name="--stdin", negative="")] = False,
    remove: Annotated[bool, Parameter(name="--remove", negative="")] = False,
) -> None:
    """Give an account a password, or another one; the browsers that are signed in to it are signed out.

    Parameters
    ----------
    name
        The account's name.
    stdin
        Read the password from standard input, without asking.
    remove
        Take the password away; the account signs in in another way, or not at all.

    """
    with existing_store(load_settings()) as db:
        user = _account(db, name)
        kept = None if remove else Passwords().hash(_piped() if stdin else _asked())
        db.users.set_password_hash(user.id, kept)
        out = _sign_out(db, user)
    show(f"{user.name} has {'no password any more' if remove else 'a new password'}.{out}")


def link_sign_in(name: str, issuer: str, subject: str, /) -> None:
    """Let somebody who is signed in elsewhere be this account.

    Parameters
    ----------
    name
        The account's name.
    issuer
        Who signs the person in: the address in web.oidc_issuer, or proxy.
    subject
        The person there: the subject of OpenID Connect, or the name that the proxy sends.

    """
    with existing_store(load_settings()) as db:
        user = _account(db, name)
        db.users.link_identity(user.id, issuer, subject)
    show(f"{subject} of {issuer} is {user.name} from now on.")


def unlink_sign_in(issuer: str, subject: str, /) -> None:
    """Take such a link back; the browsers that are signed in to the account are signed out.

    Parameters
    ----------
    issuer
        Who signs the person in: the address in web.oidc_issuer, or proxy.
    subject
        The person there, as it was linked.

    """
    with existing_store(load_settings()) as db:
        user = db.users.of_identity(issuer, subject)
        if user is None or not db.users.unlink_identity(issuer, subject):
            raise InvalidInput(f"{subject!r:.80} of {issuer!r:.80} is no account; nothing was changed")
        out = _sign_out(db, user)
    show(f"{subject} of {issuer} is {user.name} no more.{out}")


def _sign_out(db: SessionDB, user: User) -> str:
    """Sign out every browser of the account; a sentence about it, empty where there was none."""
    ended = sum(
        db.users.revoke_token(each.id, user_id=user.id)
        for each in db.users.tokens(user.id)
        if each.kind == "sign-in"
    )
    return f" {ended} {'browser was' if ended == 1 else 'browsers were'} signed out." if ended else ""


def _account(db: SessionDB, name: str) -> User:
    user = db.users.by_name(name) or db.users.get(name)
    if user is None:
        raise UserNotFound(name)
    return user


def _asked() -> Secret:
    if isinstance(sys.stdin, ClosedInput) or not sys.stdin.isatty():
        raise InvalidInput(
            "nobody can be asked for a password here; --stdin reads one from standard input. "
            "Nothing was changed."
        )
    try:
        first = getpass.getpass("new password (not shown) > ")
        again = getpass.getpass("the same again > ")
    except EOFError:
        raise InvalidInput("no password was given. Nothing was changed.") from None
    if first != again:
        raise InvalidInput("the two are not the same. Nothing was changed.")
    return Secret(first)


def _piped() -> Secret:
    if isinstance(sys.stdin, ClosedInput):
        raise InvalidInput("standard input is closed. Nothing was changed.")
    text = sys.stdin.read(10_000)
    return Secret(text.removesuffix("\n").removesuffix("\r"))
