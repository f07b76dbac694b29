"""`Principal`: for whom a request acts. `auth.py` finds it out, `access.py` says what it may do.

The installation's token acts for the owner and sees everything. An account sees what has its scope.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from starlette.types import Scope

from holdfast.core.errors import SessionNotFound
from holdfast.core.ids import id_for
from holdfast.host import SessionHost
from holdfast.sessions.audit_log import INSTALLATION
from holdfast.sessions.contract import OWNER
from holdfast.sessions.user_records import TokenKind, User

STATE = "principal"


@dataclass(frozen=True, slots=True)
class Principal:
    """The account that a request acts for; None: the installation."""

    user: User | None = None
    token_id: str = ""
    """Of an account: the token that it showed."""
    let_in_by: TokenKind | None = None
    """The kind of that token."""

    @property
    def scope(self) -> str:
        """The scope of conversations that begin now."""
        return OWNER if self.user is None else self.user.scope

    @property
    def sees(self) -> str | None:
        """The scope of what may be seen; None: any."""
        return None if self.user is None else self.user.scope

    @property
    def actor(self) -> str:
        """The name in the audit log."""
        return INSTALLATION if self.user is None else self.user.scope

    def key(self, key: str | None) -> str | None:
        """An idempotency key as it is stored: that of one account means nothing for another."""
        return key if key is None or self.user is None else id_for("key of an account", self.user.scope, key)

    async def require_own(self, host: SessionHost, session_id: str) -> None:
        """Raises what it raises for a session that does not exist, unless this one may be seen."""
        if self.user is not None and not await host.accounts.owns(self.user.scope, session_id):
            raise SessionNotFound(session_id)

    async def require_turn(self, host: SessionHost) -> None:
        """Raises `DailyLimitReached` or `StorageLimitReached` when an account may begin no turn now."""
        if self.user is not None:
            await host.accounts.require_turn(self.user)

    async def require_room(self, host: SessionHost) -> None:
        """Raises `StorageLimitReached` once an account's conversations have reached its limit."""
        if self.user is not None:
            await host.accounts.require_room(self.user)


INSTALLATION_ITSELF = Principal()


def of_scope(scope: Scope) -> Principal | None:
    """For whom the request acts; None where nothing had to be shown."""
    found: Principal | None = scope.get("state", {}).get(STATE)
    return found


def put_into(scope: Scope, principal: Principal) -> None:
    scope.setdefault("state", {})[STATE] = principal


async def _principal(request: Request) -> Principal:
    found = of_scope(request.scope)
    if found is None:
        raise RuntimeError("a path that needs no token asks for whom it acts")
    return found


PrincipalDep = Annotated[Principal, Depends(_principal)]
"""What a route declares to get for whom it acts."""
