"""`ProxiedAccounts`: for whom a request acts whose account a trusted proxy has named.

A name finds an account once: from then on what the proxy sent is an identity of that account, and the name of
the account means nothing. An account is remembered for a moment, as one of a token is. The audit log has one
entry for a name and a day, not one for each request.
"""

from collections import OrderedDict

from starlette.responses import Response
from starlette.types import Scope

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, InvalidInput, UserExists
from holdfast.host.accounts import Accounts
from holdfast.sessions.audit_log import AuditLog
from holdfast.sessions.user_records import User
from holdfast.sessions.users import Users
from holdfast.web.account_tokens import REMEMBERED_SECONDS
from holdfast.web.principal import Principal
from holdfast.web.problems import respond
from holdfast.web.sign_in.user_header import ISSUER, Proxied

MOST_REMEMBERED = 2_000
DAY_SECONDS = 86_400.0
UNCACHED = {"Cache-Control": "no-store"}


class NoAccount(HoldfastError):
    """The proxy named nobody who can be let in. `reason` and `next` are for the client."""

    def __init__(self, status: int, reason: str, message: str, what_next: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.next = what_next

    def response(self, scope: Scope) -> Response:
        detail = f"{self} Nothing was changed."
        return respond(scope, self.status, self.reason, detail, self.next, headers=UNCACHED)


class ProxiedAccounts:
    """Finds the account of whom a proxy names. On the host's loop."""

    def __init__(self, accounts: Accounts, clock: Clock, *, create_users: bool) -> None:
        self._ask = accounts.users
        self._audit = accounts.audit
        self._clock = clock
        self._create = create_users
        self._known: OrderedDict[str, tuple[Principal, float]] = OrderedDict()
        self._noted: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def principal(self, said: Proxied) -> Principal:
        """For whom the request acts. Raises `NoAccount`."""
        now = self._clock.monotonic()
        known = self._known.get(said.name)
        if known is not None and now < known[1]:
            return known[0]
        self._known.pop(said.name, None)
        user = await self._found(said.name)
        if user.disabled is not None:
            await self._note("sign-in.refused", user.scope, said.name)
            raise NoAccount(
                403, "UserDisabled", f"the account {user.name!r} is disabled.", "Ask who runs it."
            )
        await self._note("sign-in", user.scope, said.name)
        principal = Principal(user)
        self._known[said.name] = (principal, now + REMEMBERED_SECONDS)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return principal

    async def counts(self, said: Proxied) -> bool:
        """Whether the account is let in still."""
        try:
            await self.principal(said)
        except NoAccount:
            return False
        return True

    async def _found(self, name: str) -> User:
        if not name:
            await self._note("sign-in.refused", "", "")
            raise NoAccount(
                401,
                "NoUser",
                "this request came through a proxy that signs people in, and it named nobody or several.",
                "Have the proxy set the header of the setting web.user_header on every request.",
            )
        user = await self._ask(Users.of_identity, ISSUER, name) or await self._linked(name)
        if user is None and self._create:
            user = await self._made(name)
        if user is None:
            await self._note("sign-in.refused", "", name)
            raise NoAccount(
                403,
                "UnknownUser",
                f"the proxy says that this is {name!r:.100}, and no account here is theirs.",
                "Ask who runs this server for an account of exactly that name, or to link one to it.",
            )
        return user

    async def _made(self, name: str) -> User | None:
        try:
            await self._ask(Users.create, name, "user", by=ISSUER)
        except UserExists:
            pass  # a request at the same moment made it, or it is somebody else's
        except InvalidInput:
            return None
        return await self._linked(name)

    async def _linked(self, name: str) -> User | None:
        """The account of exactly this name, which is this person's from now on."""
        linked = await self._ask(Users.link_by_name, ISSUER, name, by=ISSUER)
        # None also when a request at the same moment has linked it.
        return linked or await self._ask(Users.of_identity, ISSUER, name)

    async def _note(self, action: str, target: str, name: str) -> None:
        now, about = self._clock.monotonic(), (action, target or name)
        noted = self._noted.pop(about, None)
        if noted is not None and now - noted < DAY_SECONDS:
            self._noted[about] = noted
            return
        self._noted[about] = now
        if len(self._noted) > MOST_REMEMBERED:
            self._noted.popitem(last=False)
        actor = target if action == "sign-in" else ""
        await self._audit(AuditLog.record, actor, action, target, f"by the proxy, as {name!r:.200}")
