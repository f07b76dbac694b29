"""`DisabledAccounts`: stops the turns that run here for an account that was disabled, by whichever process.

The store is asked every few seconds, and only while a turn of an account runs. What the turn had done is
kept, and the transcript says why it ends. What waits behind it is refused by the policy of its next turn.
"""

import asyncio
import logging
from collections.abc import Mapping

from holdfast.core.errors import HostClosed, StoreClosed
from holdfast.host.conversation import Conversation
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import is_user_scope

logger = logging.getLogger(__name__)

EVERY_SECONDS = 2.0
ACCOUNT_DISABLED = "the account was disabled"


class DisabledAccounts:
    """The look at the turns of accounts in one process. On the host's loop."""

    def __init__(self, call: StoreCalls, db: SessionDB, opened: Mapping[str, Conversation]) -> None:
        self._call = call
        self._db = db
        self._opened = opened

    async def run(self) -> None:
        """Look until the host closes."""
        while True:
            await asyncio.sleep(EVERY_SECONDS)
            try:
                await self.run_once()
            except (HostClosed, StoreClosed):
                return
            except Exception:
                logger.exception("host.disabled_accounts_unknown")

    async def run_once(self) -> int:
        """Stop what runs for disabled accounts; how many turns were stopped."""
        if not self._running():
            return 0
        disabled = await self._call(self._db.users.disabled_scopes)
        stopped = 0
        for each in self._running():
            if each.scope in disabled:
                stopped += each.interrupt(each.running_turn, ACCOUNT_DISABLED)
        return stopped

    def _running(self) -> list[Conversation]:
        opened = list(self._opened.values())
        return [each for each in opened if is_user_scope(each.scope) and each.running_turn is not None]
