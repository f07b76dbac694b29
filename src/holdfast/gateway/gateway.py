"""`Gateway`: serves the accounts of all chat platforms that are set up, with one host."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

from holdfast.core.events import Event
from holdfast.gateway.chat_account import ChatAccount, GatewayParts
from holdfast.gateway.contract import Adapter

logger = logging.getLogger(__name__)


class Gateway:
    """All accounts of this process."""

    def __init__(self, adapters: Mapping[str, Adapter], parts: GatewayParts) -> None:
        self.accounts = {name: ChatAccount(name, adapter, parts) for name, adapter in adapters.items()}
        parts.host.watch(self._note)

    def _note(self, event: Event) -> None:
        for account in self.accounts.values():
            account.note(event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Serve while inside. The task ends early only when no account is left to serve, or by a fault."""
        task = asyncio.create_task(self._run(), name="gateway")
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def announce(self, say: Callable[[str], None]) -> None:
        """Say of each account, once it is known, whether it is connected, and how a person begins."""

        async def waiting(account: ChatAccount) -> None:
            await account.waited.wait()
            say(f"{account.name}: another process serves this account; this one takes over when it ends")

        async def one(account: ChatAccount) -> None:
            await account.answered.wait()
            health = account.health
            if health.state == "refused":
                say(f"! {account.name}: {health.detail}")
            elif health.identity is not None:
                say(f"{account.name} is connected as {health.identity.name}. {health.identity.invite}")

        accounts = self.accounts.values()
        await asyncio.gather(*map(waiting, accounts), *map(one, accounts))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for account in self.accounts.values():
                tasks.create_task(account.run(), name=f"account {account.name}")
