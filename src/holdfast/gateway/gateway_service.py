"""`GatewayService`: the chat accounts of the settings, for a command that has a host.

`holdfast gateway` runs nothing else. `holdfast web --gateway` runs it beside the page; it finds this class by
its name, since surfaces do not import each other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from holdfast.core.settings import Settings
from holdfast.gateway.account_adapters import account_adapters, scope_folder_of
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.platforms import require_accounts
from holdfast.host import SessionHost


class GatewayService:
    """Raises `InvalidInput` when no account is set up, or one lacks something, before anything is started."""

    def __init__(self, settings: Settings) -> None:
        require_accounts(settings.gateway)
        self._settings = settings
        self._adapters = account_adapters(settings)

    @asynccontextmanager
    async def running(
        self, host: SessionHost, say: Callable[[str], None]
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve while inside; say of each account how it began.

        The task ends early only when no account is left to serve, or by a fault.
        """
        folder_of = partial(scope_folder_of, self._settings)
        parts = GatewayParts(host, self._settings.gateway, folder_of)
        serving = Gateway(self._adapters, parts)
        async with serving.running() as task:
            announcing = asyncio.create_task(serving.announce(say), name="gateway announces")
            try:
                yield task
            finally:
                announcing.cancel()
