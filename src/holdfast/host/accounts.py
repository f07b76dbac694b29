"""`Accounts`: what surfaces ask of the accounts of an installation (docs/decisions/0041).

Whose a conversation is, is read from the store each time: it never changes, and nothing here remembers it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Concatenate, ParamSpec, TypeVar

from holdfast.agent.scope_policy import DAY_SECONDS
from holdfast.core.errors import (
    DailyLimitReached,
    HoldfastError,
    HostClosed,
    StorageLimitReached,
    StoreClosed,
)
from holdfast.host.conversation import Conversation
from holdfast.host.disabled_accounts import DisabledAccounts
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions import SessionDB
from holdfast.sessions.audit_log import AuditLog
from holdfast.sessions.codec import is_name
from holdfast.sessions.storage_use import measure_storage
from holdfast.sessions.user_records import User
from holdfast.sessions.users import Users

logger = logging.getLogger(__name__)

MEASURED_SECONDS = 60.0
AGAIN_SECONDS = 1.0
"""An account that is refused is measured again at most so often."""
T = TypeVar("T")
P = ParamSpec("P")


class Accounts:
    """The accounts in a host's store. Every method on the host's loop."""

    def __init__(self, db: SessionDB, call: StoreCalls) -> None:
        self._db = db
        self._call = call

    async def users(self, ask: Callable[Concatenate[Users, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of `Users` off the loop: `users(Users.get, user_id)`."""
        return await self._call(lambda: ask(self._db.users, *args, **kwargs))

    async def audit(self, ask: Callable[Concatenate[AuditLog, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for the audit log."""
        return await self._call(lambda: ask(self._db.audit, *args, **kwargs))

    async def owns(self, scope: str, session_id: str) -> bool:
        """Whether there is a session of this name, and it has this scope."""
        if not is_name(session_id):
            return False
        found = await self._call(self._db.get_session, session_id)
        return found is not None and found.scope == scope

    async def own(self, scope: str, session_ids: Iterable[str]) -> set[str]:
        """Those of the sessions that have this scope, which is not the owner's."""
        scopes = await self._call(self._db.sessions.scopes, list(session_ids))
        return {each for each, found in scopes.items() if found == scope}

    async def used(self, scopes: Iterable[str]) -> dict[str, tuple[int, int]]:
        """How many turns and tokens each scope has used in 24 hours, as its limits count them."""
        turns = self._db.turns

        def read() -> dict[str, tuple[int, int]]:
            return {
                each: (turns.turns_begun(each, DAY_SECONDS), turns.tokens_used(each, DAY_SECONDS))
                for each in scopes
            }

        return await self._call(read)

    async def require_turn(self, user: User) -> None:
        """Raises `DailyLimitReached` or `StorageLimitReached` when the account may begin no turn now.

        Nothing is stored then. Requests that come at the same moment are counted one by one only when their
        turns begin.
        """
        await self.require_room(user)
        if user.daily_turns is not None:
            begun = await self._call(self._db.turns.turns_begun, user.scope, DAY_SECONDS)
            if begun >= user.daily_turns:
                raise DailyLimitReached("turns", user.daily_turns)
        if user.daily_tokens is not None:
            used = await self._call(self._db.turns.tokens_used, user.scope, DAY_SECONDS)
            if used >= user.daily_tokens:
                raise DailyLimitReached("tokens", user.daily_tokens)

    async def require_room(self, user: User) -> None:
        """Raises `StorageLimitReached` once the account's conversations have reached its limit."""
        if user.storage_limit is None or not user.is_full:
            return
        # What was deleted since the last measurement counts at once.
        if (used := await self._measure(user.scope, AGAIN_SECONDS)) >= user.storage_limit:
            raise StorageLimitReached(used, user.storage_limit)

    async def watch(self, opened: Mapping[str, Conversation]) -> None:
        """See to the accounts of these conversations until the host closes."""
        disabled = DisabledAccounts(self._call, self._db, opened)
        await asyncio.gather(self.keep_measured(), disabled.run())

    async def keep_measured(self) -> None:
        """Measure the storage of accounts now and again, beside their turns, until the host closes."""
        while True:
            await asyncio.sleep(MEASURED_SECONDS)
            try:
                await self.measure()
            except (HostClosed, StoreClosed):
                return
            except Exception:
                logger.exception("host.accounts_not_measured")

    async def measure(self) -> int:
        """Measure the accounts in which something has happened since they were; how many they were."""
        scopes = await self._call(self._db.users.to_measure, MEASURED_SECONDS)
        for scope in scopes:
            try:
                await self._measure(scope)
            except HoldfastError as problem:
                if isinstance(problem, (HostClosed, StoreClosed)):
                    raise
                # The others are measured all the same, and this one a minute later.
                logger.warning("host.account_not_measured", extra={"scope": scope, "cause": repr(problem)})
        return len(scopes)

    async def _measure(self, scope: str, within_s: float = 0.0) -> int:
        while (size := await self._call.run(measure_storage, scope, within_s)) is None:
            continue
        return size
