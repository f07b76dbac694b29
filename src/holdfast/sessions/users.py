"""`Users`: the accounts of one installation, what they are let in with, and who they are elsewhere.

An account is the scope `user/<id>` with a name, a role and limits (docs/decisions/0041). Each change writes
an entry of the audit log in its transaction; `by` says who makes it. Secrets leave this module once and are
stored as digests. All methods block.
"""

import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace

from holdfast.core.errors import StoreFailure
from holdfast.core.ids import new_id
from holdfast.sessions.audit_log import INSTALLATION
from holdfast.sessions.contract import SECOND, Engine, Transaction
from holdfast.sessions.storage_use import measure_storage
from holdfast.sessions.user_operations import (
    accept_invitation,
    change_user,
    change_user_password,
    create_user,
    disable_user,
    enable_user,
    find_user,
    invite_user,
    issue_user_token,
    link_identity_by_name,
    link_user_identity,
    note_token_used,
    remove_user,
    require_user,
    revoke_user_token,
    set_user_password,
    unlink_user_identity,
)
from holdfast.sessions.user_records import (
    TokenKind,
    User,
    UserChanges,
    UserIdentity,
    UserRole,
    UserToken,
    digest_of,
    name_key,
    user_scope,
)

TOKEN_PREFIX, CODE_PREFIX = "hfu_", "hfi_"
SECRET_BYTES = 32
USE_NOTED_US = 600 * SECOND
"""The last use of a token is on record to ten minutes, so that a request costs no write."""
USER_COLUMNS = 10

logger = logging.getLogger(__name__)


class Users:
    """The accounts of one store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # accounts

    def create(
        self,
        name: str,
        role: UserRole = "user",
        *,
        daily_turns: int | None = None,
        daily_tokens: int | None = None,
        storage_limit: int | None = None,
        by: str = INSTALLATION,
    ) -> User:
        """Make an account; `UserExists` when a name that differs only in its case is taken."""
        new = _new_user(name, role)
        limits = replace(new, daily_turns=daily_turns, daily_tokens=daily_tokens, storage_limit=storage_limit)
        return self._engine.write(create_user(limits, by))

    def get(self, user_id: str) -> User | None:
        return self._engine.read_once(lambda tx: find_user(tx, user_id))

    def by_name(self, name: str) -> User | None:
        """The account of this name, in whatever case."""

        def work(tx: Transaction) -> User | None:
            row = tx.queries.user_by_name(name_key=name_key(name.strip()))
            return None if row is None else User(*row)

        return self._engine.read_once(work)

    def of_scope(self, scope: str) -> User | None:
        """The account whose conversations have this scope."""

        def work(tx: Transaction) -> User | None:
            row = tx.queries.user_of_scope(scope=scope)
            return None if row is None else User(*row)

        return self._engine.read_once(work)

    def list(self) -> Sequence[User]:
        """All accounts, by name."""
        return self._engine.read_once(lambda tx: [User(*row) for row in tx.queries.list_users()])

    def change(self, user_id: str, changes: UserChanges, *, by: str = INSTALLATION) -> User:
        """Change a name, a role or limits. Turns that run go on as they began."""
        return self._engine.write(change_user(user_id, changes, by))

    def disable(self, user_id: str, *, by: str = INSTALLATION) -> bool:
        """Let an account do nothing more; what it has stays. False: it was disabled already."""
        return self._engine.write(disable_user(user_id, by))

    def disabled_scopes(self) -> frozenset[str]:
        """The scopes of the accounts that can do nothing now."""
        return self._engine.read_once(lambda tx: frozenset(row[0] for row in tx.queries.disabled_scopes()))

    def enable(self, user_id: str, *, by: str = INSTALLATION) -> bool:
        """Let an account in again, with the tokens that it had. False: it was not disabled."""
        return self._engine.write(enable_user(user_id, by))

    def remove(self, user_id: str, *, by: str = INSTALLATION) -> None:
        """Remove an account with all that lets it in; `UserInUse` while it has conversations."""
        self._engine.write(remove_user(user_id, by))

    def conversations(self, scope: str) -> Sequence[str]:
        """The first sessions of all conversations of a scope."""
        return self._engine.read(lambda tx: [row[0] for row in tx.queries.roots_of_scope(scope=scope)])

    def measure_storage(self, scope: str, within_s: float = 0.0) -> int:
        """How many bytes the account's conversations keep: counted now, or within these seconds before."""
        while (size := self._engine.write(measure_storage(scope, within_s))) is None:
            continue
        return size

    def to_measure(self, every_s: float) -> Sequence[str]:
        """Scopes of accounts that keep more or less, it may be, than when they were measured, so long ago."""
        return self._engine.read(
            lambda tx: [row[0] for row in tx.queries.scopes_to_measure(every_us=int(every_s * SECOND))]
        )

    def exist(self) -> bool:
        """Whether there are any accounts."""
        return self._engine.read_once(lambda tx: tx.queries.has_users()) is not None

    # tokens

    def issue_token(
        self,
        user_id: str,
        label: str,
        expires_s: float | None = None,
        kind: TokenKind = "token",
        *,
        by: str = INSTALLATION,
    ) -> tuple[str, UserToken]:
        """A new secret that lets the account in, and its record. The secret can't be read again."""
        secret = TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        issued = issue_user_token(
            user_id,
            label,
            digest=digest_of(secret),
            kind=kind,
            expires_s=expires_s,
            token_id=new_id(),
            by=by,
        )
        return secret, self._engine.write(issued)

    def tokens(self, user_id: str) -> Sequence[UserToken]:
        """The tokens of an account, those that count no more included, oldest first."""
        return self._engine.read_once(
            lambda tx: [UserToken(*row) for row in tx.queries.list_user_tokens(user_id=user_id)]
        )

    def revoke_token(self, token_id: str, *, user_id: str | None = None, by: str = INSTALLATION) -> bool:
        """End a token; with an account only one of its own. False when there is none, or it had ended."""
        return self._engine.write(revoke_user_token(token_id, by, user_id))

    def of_token(self, text: str) -> User | None:
        """Whose token this is; None for a wrong, expired or revoked one, and while the account is disabled.

        The digest is looked up, so what is stored can't be found out by the time that an answer takes.
        """
        found = self.signed_in(text)
        return None if found is None else found[0]

    def signed_in(self, text: str) -> tuple[User, str, TokenKind] | None:
        """The same, with the token's id and kind."""
        row = self._engine.read_once(lambda tx: tx.queries.user_of_token(digest=digest_of(text)))
        if row is None:
            return None
        token_id, kind, unused_for = row[USER_COLUMNS:]
        if unused_for > USE_NOTED_US:
            try:
                self._engine.write(note_token_used(token_id))
            except StoreFailure:
                # That a token was used is worth less than the request it came with.
                logger.warning("users.use_not_noted", exc_info=True)
        return User(*row[:USER_COLUMNS]), token_id, kind

    # passwords and identities

    def has_passwords(self) -> bool:
        """Whether any account that is not disabled has a password."""
        return self._engine.read_once(lambda tx: tx.queries.has_passwords()) is not None

    def password_hash(self, user_id: str) -> str | None:
        """The hash of the account's password; None: it has none."""

        def work(tx: Transaction) -> str | None:
            require_user(tx, user_id)
            found: str | None = tx.queries.get_password_hash(id=user_id)
            return found

        return self._engine.read(work)

    def set_password_hash(self, user_id: str, password_hash: str | None, *, by: str = INSTALLATION) -> None:
        """Keep a password's hash, never the password; None takes the password away."""
        self._engine.write(set_user_password(user_id, password_hash, by))

    def change_password_hash(self, user_id: str, old: str, new: str, *, kept_token: str | None) -> bool:
        """Replace a password's hash and sign out every browser but that of one token, at once.

        With None for the token nobody is signed out. False, and nothing is changed, when the hash is not
        `old` any more.
        """
        return self._engine.write(change_user_password(user_id, old, new, kept_token))

    def of_identity(self, issuer: str, subject: str) -> User | None:
        """The account of somebody who is known elsewhere, also a disabled one."""

        def work(tx: Transaction) -> User | None:
            row = tx.queries.user_of_identity(issuer=issuer, subject=subject)
            return None if row is None else User(*row)

        return self._engine.read_once(work)

    def link_identity(self, user_id: str, issuer: str, subject: str, *, by: str = INSTALLATION) -> None:
        """Let who is known elsewhere be this account; again, it changes nothing."""
        self._engine.write(link_user_identity(user_id, issuer, subject, by))

    def link_by_name(self, issuer: str, subject: str, *, by: str = INSTALLATION) -> User | None:
        """Let who is known elsewhere be the account of exactly this name; None when there is none to have.

        One that has an identity of this issuer already can't be had.
        """
        return self._engine.write(link_identity_by_name(issuer, subject, by))

    def unlink_identity(self, issuer: str, subject: str, *, by: str = INSTALLATION) -> bool:
        """Take such a link back."""
        return self._engine.write(unlink_user_identity(issuer, subject, by))

    def identities(self, user_id: str) -> Sequence[UserIdentity]:
        return self._engine.read_once(
            lambda tx: [UserIdentity(*row) for row in tx.queries.identities_of(user_id=user_id)]
        )

    # invitations

    def invite(self, role: UserRole, expires_s: float, *, by: str = INSTALLATION) -> str:
        """A code with which one person makes an account of this role; it can't be read again."""
        code = CODE_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
        self._engine.write(invite_user(digest_of(code), role, expires_s, by))
        return code

    def accept(self, code: str, name: str, password_hash: str | None = None) -> User:
        """Make the account of an invitation; `InvitationInvalid` for an unknown, used or expired code."""
        user = _new_user(name, "user")
        return self._engine.write(accept_invitation(digest_of(code.strip()), user, password_hash))


def _new_user(name: str, role: UserRole) -> User:
    made = new_id()
    return User(made, name, role, user_scope(made), None, None, 0, None)
