"""The named operations on accounts: each one transaction, with its entry of the audit log.

`users.py` asks for them. Secrets come in as digests only.
"""

import unicodedata
from collections.abc import Callable
from dataclasses import replace

from holdfast.core.errors import (
    InvalidInput,
    InvitationInvalid,
    TooManyTokens,
    UserDisabled,
    UserExists,
    UserInUse,
    UserNotFound,
)
from holdfast.sessions.audit_log import note
from holdfast.sessions.codec import checked_name, checked_seconds
from holdfast.sessions.contract import SECOND, Transaction
from holdfast.sessions.operations import operation
from holdfast.sessions.user_records import (
    TokenKind,
    User,
    UserChanges,
    UserRole,
    UserToken,
    checked_kind,
    checked_per_day,
    checked_role,
    checked_storage,
    checked_user_name,
    name_key,
    user_scope,
)

KEPT_US = 30 * 86_400 * SECOND
"""How long invitations and tokens that count no more stay on record."""
LONGEST_LABEL = 200
MOST_TOKENS = 50
"""How many tokens of one account count at once, and how many sign-ins."""


@operation
def create_user(user: User, by: str) -> Callable[[Transaction], User]:
    """Make an account; `UserExists` when the name is taken."""
    name, role = checked_user_name(user.name), checked_role(user.role)
    turns, tokens = checked_per_day(user.daily_turns), checked_per_day(user.daily_tokens)
    storage = checked_storage(user.storage_limit)
    new = replace(user, name=name, role=role, daily_turns=turns, daily_tokens=tokens, storage_limit=storage)
    return lambda tx: _added(tx, new, by)


@operation
def change_user(user_id: str, changes: UserChanges, by: str) -> Callable[[Transaction], User]:
    """Change an account's name, role or limits."""

    def work(tx: Transaction) -> User:
        known = _locked(tx, user_id)
        wanted = changes.of(known)
        assert wanted.name is not None  # noqa: S101 - `of` fills in what is not changed
        key = name_key(wanted.name)
        changed = tx.queries.change_user(
            id=user_id,
            name=wanted.name,
            name_key=key,
            role=wanted.role,
            daily_turns=wanted.daily_turns,
            daily_tokens=wanted.daily_tokens,
            storage_limit=wanted.storage_limit,
        )
        if not changed:
            raise UserExists(wanted.name)
        note(tx, by, "user.changed", known.scope, changes.told())
        return require_user(tx, user_id)

    return work


@operation
def disable_user(user_id: str, by: str) -> Callable[[Transaction], bool]:
    """Let an account do nothing more; False when it could do nothing already."""

    def work(tx: Transaction) -> bool:
        known = _locked(tx, user_id)
        done = bool(tx.queries.disable_user(id=user_id))
        if done:
            note(tx, by, "user.disabled", known.scope)
        return done

    return work


@operation
def enable_user(user_id: str, by: str) -> Callable[[Transaction], bool]:
    """Let an account in again; False when nothing kept it out."""

    def work(tx: Transaction) -> bool:
        known = _locked(tx, user_id)
        done = bool(tx.queries.enable_user(id=user_id))
        if done:
            note(tx, by, "user.enabled", known.scope)
        return done

    return work


@operation
def remove_user(user_id: str, by: str) -> Callable[[Transaction], None]:
    """Remove an account with its tokens, identities and schedules; `UserInUse` while it has conversations."""

    def work(tx: Transaction) -> None:
        known = _locked(tx, user_id)
        count = int(tx.queries.conversations_of_scope(scope=known.scope))
        if count:
            raise UserInUse(known.name, count)
        tx.queries.remove_user_tokens(user_id=user_id)
        tx.queries.remove_user_identities(user_id=user_id)
        tx.queries.remove_schedules_of_scope(scope=known.scope)
        tx.queries.remove_user(id=user_id)
        note(tx, by, "user.removed", known.scope, known.name)

    return work


@operation
def issue_user_token(  # noqa: PLR0913 - each is a column
    user_id: str, label: str, *, digest: str, kind: TokenKind, expires_s: float | None, token_id: str, by: str
) -> Callable[[Transaction], UserToken]:
    """Let an account in with a secret; `UserDisabled` when it can do nothing, `TooManyTokens` at the most.

    One sign-in too many ends the oldest one: nobody is kept out by browsers that never signed out.
    """
    named, known_kind = _checked_label(label), checked_kind(kind)
    ttl = None if expires_s is None else checked_seconds("a token", expires_s)

    def work(tx: Transaction) -> UserToken:
        known = _locked(tx, user_id)
        if known.disabled is not None:
            raise UserDisabled(known.name)
        tx.queries.forget_old_tokens(user_id=user_id, keep_us=KEPT_US)
        tx.queries.add_user_token(
            id=token_id, user_id=user_id, label=named, kind=known_kind, digest=digest, ttl_us=ttl
        )
        note(tx, by, "sign-in" if known_kind == "sign-in" else "token.issued", known.scope, named)
        issued = UserToken(*tx.queries.get_user_token(id=token_id))
        _make_room(tx, known, issued)
        return issued

    return work


@operation
def note_token_used(token_id: str) -> Callable[[Transaction], None]:
    """Take down that a token was used."""
    return lambda tx: tx.queries.note_token_used(id=token_id)


@operation
def revoke_user_token(token_id: str, by: str, user_id: str | None = None) -> Callable[[Transaction], bool]:
    """End a token, of this account if one is named; False when there is none, or it had ended."""

    def work(tx: Transaction) -> bool:
        row = tx.queries.get_user_token(id=token_id)
        if row is None or user_id not in (None, row[1]) or not tx.queries.revoke_user_token(id=token_id):
            return False
        token = UserToken(*row)
        action = "signed-out" if token.kind == "sign-in" else "token.revoked"
        note(tx, by, action, user_scope(token.user_id), token.label)
        return True

    return work


@operation
def set_user_password(user_id: str, password_hash: str | None, by: str) -> Callable[[Transaction], None]:
    """Keep the hash of an account's password, or take the password away."""

    def work(tx: Transaction) -> None:
        known = _locked(tx, user_id)
        tx.queries.set_password_hash(id=user_id, password_hash=password_hash)
        note(tx, by, "password.removed" if password_hash is None else "password.set", known.scope)

    return work


@operation
def change_user_password(
    user_id: str, old_hash: str, new_hash: str, kept_token: str | None
) -> Callable[[Transaction], bool]:
    """Replace a password's hash and sign out every browser but one; False when it has changed meanwhile.

    With None for the token nobody is signed out: the password is the same, only its hash is newer.
    """

    def work(tx: Transaction) -> bool:
        known = _locked(tx, user_id)
        if tx.queries.get_password_hash(id=user_id) != old_hash:
            return False
        tx.queries.set_password_hash(id=user_id, password_hash=new_hash)
        note(tx, known.scope, "password.set", known.scope)
        for row in tx.queries.list_user_tokens(user_id=user_id) if kept_token is not None else ():
            token = UserToken(*row)
            other = token.kind == "sign-in" and token.id != kept_token
            if other and tx.queries.revoke_user_token(id=token.id):
                note(tx, known.scope, "signed-out", known.scope, token.label)
        return True

    return work


@operation
def link_user_identity(user_id: str, issuer: str, subject: str, by: str) -> Callable[[Transaction], None]:
    """Let who is known elsewhere be this account; `InvalidInput` when that is another account already."""
    checked_name("an issuer", issuer)
    checked_name("a subject", subject)

    def work(tx: Transaction) -> None:
        known = _locked(tx, user_id)
        if tx.queries.link_identity(issuer=issuer, subject=subject, user_id=user_id):
            note(tx, by, "identity.linked", known.scope, f"{issuer} {subject}")
            return
        if tx.queries.user_of_identity(issuer=issuer, subject=subject)[0] != user_id:
            raise InvalidInput(f"{subject!r:.80} of {issuer!r:.80} is another account; nothing was changed")

    return work


@operation
def link_identity_by_name(issuer: str, subject: str, by: str) -> Callable[[Transaction], User | None]:
    """Let who is known elsewhere be the account of exactly this name; None when there is none to have.

    An account that an identity of the issuer has already is not found: its name may have been changed.
    """
    checked_name("an issuer", issuer)
    name = unicodedata.normalize("NFC", subject.strip())

    def work(tx: Transaction) -> User | None:
        found = tx.queries.user_by_name(name_key=name_key(name))
        row = None if found is None else tx.queries.lock_user(id=User(*found).id)
        if row is None:
            return None
        known = User(*row)
        taken = any(issuer == each[0] for each in tx.queries.identities_of(user_id=known.id))
        if taken or known.name != name:
            return None
        if not tx.queries.link_identity(issuer=issuer, subject=subject, user_id=known.id):
            return None
        note(tx, by, "identity.linked", known.scope, f"{issuer} {subject}")
        return known

    return work


@operation
def unlink_user_identity(issuer: str, subject: str, by: str) -> Callable[[Transaction], bool]:
    """Take such a link back; False when there was none."""

    def work(tx: Transaction) -> bool:
        row = tx.queries.user_of_identity(issuer=issuer, subject=subject)
        if row is None:
            return False
        tx.queries.unlink_identity(issuer=issuer, subject=subject)
        note(tx, by, "identity.unlinked", User(*row).scope, f"{issuer} {subject}")
        return True

    return work


@operation
def invite_user(digest: str, role: UserRole, expires_s: float, by: str) -> Callable[[Transaction], None]:
    """Keep an invitation, by the digest of its code."""
    known_role, ttl = checked_role(role), checked_seconds("an invitation", expires_s)

    def work(tx: Transaction) -> None:
        tx.queries.forget_old_invitations(keep_us=KEPT_US)
        tx.queries.add_invitation(digest=digest, role=known_role, ttl_us=ttl)
        note(tx, by, "invited", "", f"as {known_role}")

    return work


@operation
def accept_invitation(
    digest: str, user: User, password_hash: str | None = None
) -> Callable[[Transaction], User]:
    """Make the account of an invitation, once, with a password or none; its role is the invitation's."""
    name = checked_user_name(user.name)

    def work(tx: Transaction) -> User:
        if not tx.queries.use_invitation(digest=digest, used_by=user.id):
            raise InvitationInvalid
        role = tx.queries.get_invitation(digest=digest)[0]
        made = _added(tx, replace(user, name=name, role=role), user.scope)
        if password_hash is not None:
            tx.queries.set_password_hash(id=made.id, password_hash=password_hash)
            note(tx, made.scope, "password.set", made.scope)
        return made

    return work


def find_user(tx: Transaction, user_id: str) -> User | None:
    row = tx.queries.get_user(id=user_id)
    return None if row is None else User(*row)


def require_user(tx: Transaction, user_id: str) -> User:
    found = find_user(tx, user_id)
    if found is None:
        raise UserNotFound(user_id)
    return found


def _locked(tx: Transaction, user_id: str) -> User:
    """The account, which nothing else changes until the end of the transaction."""
    row = tx.queries.lock_user(id=user_id)
    if row is None:
        raise UserNotFound(user_id)
    return User(*row)


def _make_room(tx: Transaction, user: User, issued: UserToken) -> None:
    """See to it that no more than `MOST_TOKENS` of this kind count, with the one that was just stored."""
    counting = [
        each
        for each in (UserToken(*row) for row in tx.queries.list_user_tokens(user_id=user.id))
        if each.kind == issued.kind and each.counts_at(issued.created) and each.id != issued.id
    ]
    if len(counting) < MOST_TOKENS:
        return
    if issued.kind == "token":
        raise TooManyTokens(user.name, MOST_TOKENS)
    for each in counting[: len(counting) - MOST_TOKENS + 1]:
        tx.queries.revoke_user_token(id=each.id)
        note(tx, user.scope, "signed-out", user.scope, each.label)


def _added(tx: Transaction, new: User, by: str) -> User:
    added = tx.queries.add_user(
        id=new.id,
        name=new.name,
        name_key=name_key(new.name),
        role=new.role,
        daily_turns=new.daily_turns,
        daily_tokens=new.daily_tokens,
        storage_limit=new.storage_limit,
    )
    if not added:
        raise UserExists(new.name)
    note(tx, by, "user.created", new.scope, f"{new.name}, {new.role}")
    return require_user(tx, new.id)


def _checked_label(label: str) -> str:
    plain = " ".join(label.split())
    if len(plain) > LONGEST_LABEL:
        raise InvalidInput(f"a token's label has at most {LONGEST_LABEL} characters; nothing was changed")
    return checked_name("a token's label", plain) if plain else ""
