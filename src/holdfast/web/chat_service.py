"""The chat platforms inside the web server (`holdfast web --gateway`): one process, one host.

Surfaces do not import each other. Like the list of commands, this module names the gateway, and knows of it
what `ChatService` says.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pkgutil import resolve_name
from typing import Protocol

from holdfast.core.settings import Settings
from holdfast.host import SessionHost

logger = logging.getLogger(__name__)

GATEWAY = "holdfast.gateway.gateway_service:GatewayService"
Say = Callable[[str], None]


class ChatService(Protocol):
    """The gateway, as far as it is known here."""

    def running(self, host: SessionHost, say: Say) -> AbstractAsyncContextManager[asyncio.Task[None]]:
        """Serve the accounts while inside; the task ends early when none is left, or by a fault."""
        ...


async def chat_service(settings: Settings) -> ChatService:
    """The gateway of the settings; `InvalidInput` when no account is set up, or one lacks something."""
    service: ChatService = await resolve_name(GATEWAY).open(settings)
    return service


@asynccontextmanager
async def serving_chats(service: ChatService | None, host: SessionHost, say: Say) -> AsyncIterator[None]:
    """Serve the chat accounts while inside. The page goes on when their gateway ends."""
    if service is None:
        yield
        return

    def ended(task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        say("! no chat account is served any more; the page goes on. Start again to try once more.")
        if cause := task.exception():
            logger.error("web.chats_ended", exc_info=cause)

    async with service.running(host, say) as task:
        task.add_done_callback(ended)
        yield
