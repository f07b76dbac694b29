"""`AccountSignIns`: from a password, or an identity that somebody vouches for, to an account that is let in.

Every success and every refusal is an entry of the audit log. A name that nobody has costs what a known one
costs. It lives on the loop; hashing runs on two threads of its own.
"""

from dataclasses import dataclass

from holdfast.core.errors import InvalidInput, InvitationInvalid, UserDisabled, UserExists, UserNotFound
from holdfast.core.secret import Secret
from holdfast.host.accounts import Accounts
from holdfast.host.passwords import Passwords
from holdfast.process import DaemonPool, off_loop
from holdfast.sessions.audit_log import AuditLog
from holdfast.sessions.user_records import User
from holdfast.sessions.users import Users

SIGN_IN_SECONDS = 30 * 86_400
AT_ONCE, WAITING = 2, 32
"""Hashing one password takes 64 MB and a tenth of a second; more than these are refused for now."""
REFUSED = "sign-in.refused"


@dataclass(frozen=True, slots=True)
class Vouched:
    """Somebody whom a proxy or an issuer has signed in."""

    issuer: str
    subject: str
    name: str
    """What the account is called if it is made now."""
    way: str
    """How it was done, for the audit log."""
    invitation: str = ""


class UnknownPerson(Exception):
    """No account is linked to this person, and none is made. The message says why."""


class AccountSignIns:
    """Lets accounts of one store in."""

    def __init__(self, accounts: Accounts, *, create_users: bool) -> None:
        self._ask = accounts.users
        self._audit = accounts.audit
        self._create = create_users
        self._passwords = Passwords()
        self._hashing = DaemonPool("passwords", AT_ONCE, WAITING)

    def close(self) -> None:
        """Check no more passwords."""
        self._hashing.close(0)

    async def has_passwords(self) -> bool:
        """Whether any account that is not disabled has a password."""
        return await self._ask(Users.has_passwords)

    async def by_password(self, name: str, password: Secret, client: str) -> Secret | None:
        """A token for the account of this name; None, whatever does not fit."""
        user = await self._ask(Users.by_name, name)
        kept = await self._kept_hash(user)
        checked = await off_loop(self._hashing, self._passwords.check, kept, password)
        if user is None or not checked.fits or user.disabled is not None:
            await self._refused(user, f"password, from {client}")
            return None
        if checked.renewed is not None and kept is not None:
            await self._ask(Users.change_password_hash, user.id, kept, checked.renewed, kept_token=None)
        return await self.token_for(user, f"password, from {client}")

    async def hash(self, password: Secret) -> str:
        """What is kept of a password. Raises `InvalidInput` when it is too short, say."""
        return await off_loop(self._hashing, self._passwords.hash, password)

    async def change_password(self, user: User, old: Secret, new: Secret, token_id: str) -> bool:
        """Give an account another password; False when the old one does not fit.

        Every browser that is signed in to it is signed out, but for the one that asks (its token's id).
        """
        kept = await self._kept_hash(user)
        if kept is not None and (await off_loop(self._hashing, self._passwords.check, kept, old)).fits:
            hashed = await self.hash(new)
            if await self._ask(Users.change_password_hash, user.id, kept, hashed, kept_token=token_id):
                return True
        await self._audit(AuditLog.record, user.scope, "password.refused", user.scope)
        return False

    async def by_identity(self, person: Vouched) -> User:
        """The account of a person. Raises `UnknownPerson`, and `UserDisabled`."""
        user = await self._ask(Users.of_identity, person.issuer, person.subject)
        if user is None:
            user = await self._made(person)
        if user.disabled is not None:
            await self._refused(user, person.way)
            raise UserDisabled(user.name)
        return user

    async def token_for(self, user: User, way: str) -> Secret | None:
        """What the account's browser shows from now on; None when it was disabled a moment ago."""
        try:
            secret, _ = await self._ask(
                Users.issue_token, user.id, way[:200], SIGN_IN_SECONDS, "sign-in", by=user.scope
            )
        except (UserDisabled, UserNotFound):
            await self._refused(user, way)
            return None
        return Secret(secret)

    async def sign_out(self, token: str) -> bool:
        """End a browser's token; False for any other one."""
        found = await self._ask(Users.signed_in, token)
        if found is None:
            return False
        user, token_id, kind = found
        if kind != "sign-in":
            return False
        return await self._ask(Users.revoke_token, token_id, user_id=user.id, by=user.scope)

    async def refused(self, detail: str) -> None:
        """Keep that somebody unknown was not let in."""
        await self._refused(None, detail)

    async def _kept_hash(self, user: User | None) -> str | None:
        try:
            # For an unknown name too: the store is asked as often.
            return await self._ask(Users.password_hash, user.id if user else "nobody")
        except UserNotFound:
            return None

    async def _made(self, person: Vouched) -> User:
        """An account for somebody who has none: by an invitation, or because everybody gets one."""
        if not person.invitation and not self._create:
            await self._refused(None, f"{person.way}: no account for {person.subject} of {person.issuer}")
            raise UnknownPerson("no account here is linked to this sign-in.")
        try:
            if person.invitation:
                user = await self._ask(Users.accept, person.invitation, person.name)
            else:
                user = await self._ask(Users.create, person.name, "user", by=person.issuer)
        except (UserExists, InvitationInvalid, InvalidInput) as cause:
            # Never the account that has this name already: its person may be another one.
            await self._refused(None, f"{person.way}: {cause}")
            raise UnknownPerson(f"no account was made: {cause}.") from cause
        await self._ask(Users.link_identity, user.id, person.issuer, person.subject, by=user.scope)
        return user

    async def _refused(self, user: User | None, detail: str) -> None:
        await self._audit(AuditLog.record, "", REFUSED, user.scope if user else "", detail)
