"""`GatewayService`: the chat accounts of the settings, for a command that has a host.

`holdfast gateway` runs nothing else. `holdfast web --gateway` runs it beside the page; it finds this class by
its name, since surfaces do not import each other.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from holdfast.core.clock import SystemClock
from holdfast.core.settings import Settings
from holdfast.gateway.account_adapters import account_adapters
from holdfast.gateway.gateway import Gateway
from holdfast.gateway.platforms import require_accounts
from holdfast.host import SessionHost


class GatewayService:
    """Raises `InvalidInput` when no account is set up, or one lacks something, before anything is started."""

    def __init__(self, settings: Settings) -> None:
        require_accounts(settings.gateway)
        self._settings = settings.gateway
        self._adapters = account_adapters(settings)

    @asynccontextmanager
    async def running(
        self, host: SessionHost, say: Callable[[str], None]
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve while inside, and say of each account how it began.

        The task ends early only when no account is left to serve, or by a fault.
        """
        serving = Gateway(host, self._adapters, self._settings, SystemClock())
        async with serving.running() as task:
            announcing = asyncio.create_task(serving.announce(say), name="gateway announces")
            try:
                yield task
            finally:
                announcing.cancel()
