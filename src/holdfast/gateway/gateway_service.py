"""`GatewayService`: the chat accounts of the settings, for a command that has a host.

`holdfast gateway` runs nothing else. `holdfast web --gateway` runs it beside the page; it finds this class by
its name, since surfaces do not import each other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

from holdfast.core.settings import Settings
from holdfast.gateway.account_adapters import START_SECONDS, account_adapters, scope_folder_of
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import Adapter
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.platforms import require_accounts
from holdfast.host import SessionHost


class GatewayService:
    """Made by `open`. `late` names the accounts whose platform did not answer in time."""

    def __init__(self, settings: Settings, adapters: Mapping[str, Adapter], late: Sequence[str]) -> None:
        self._settings = settings
        self._adapters = adapters
        self._late = late

    @classmethod
    async def open(cls, settings: Settings) -> Self:
        """Raises `InvalidInput` when no account is set up, or one lacks something; nothing is started yet."""
        require_accounts(settings.gateway)
        return cls(settings, *await account_adapters(settings))

    @asynccontextmanager
    async def running(
        self, host: SessionHost, say: Callable[[str], None]
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve while inside; say of each account how it began.

        The task ends early only when no account is left to serve, or by a fault.
        """
        for name in self._late:
            say(f"! {name} did not answer in {START_SECONDS:g} s; going on without it")
        folder_of = partial(scope_folder_of, self._settings)
        parts = GatewayParts(host, self._settings.gateway, folder_of)
        serving = Gateway(self._adapters, parts)
        async with serving.running() as task:
            announcing = asyncio.create_task(serving.announce(say), name="gateway announces")
            try:
                yield task
            finally:
                announcing.cancel()
