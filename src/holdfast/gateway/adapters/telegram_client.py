"""Calls of the Bot API with aiogram's transport and types, and what its errors mean to the gateway."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    AiogramError,
    TelegramBadRequest,
    TelegramConflictError,
    TelegramEntityTooLarge,
    TelegramForbiddenError,
    TelegramMigrateToChat,
    TelegramNotFound,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.methods import TelegramMethod
from aiogram.utils.token import TokenValidationError
from aiohttp import ClientConnectorError, ClientError, ConnectionTimeoutError, InvalidURL

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.telegram_groups import GroupMoved
from holdfast.gateway.contract import (
    ChatPlatformError,
    FileTooLarge,
    NotTaken,
    SendRefused,
    SignInRefused,
    SlowDown,
    TakenElsewhere,
    Unreachable,
)

T = TypeVar("T")

ANSWER_SECONDS = 20
TRANSFER_SECONDS = 300
BATCH = 100

NEVER_WRITTEN = (ClientConnectorError, ConnectionTimeoutError, InvalidURL)
"""The failures of aiohttp that happen before a byte of the request is written."""


class ReadUpdates(TelegramMethod[list[dict[str, Any]]]):
    """`getUpdates` that leaves each update as JSON: one that aiogram can't read holds up no other."""

    __returning__: ClassVar[Any] = list[dict[str, Any]]
    __api_method__: ClassVar[str] = "getUpdates"

    offset: int
    timeout: int
    allowed_updates: tuple[str, ...] = ("message", "callback_query")
    limit: int = BATCH


class TelegramClient:
    """Makes the calls. Every failure is an error of the port, and none shows the token."""

    def __init__(self, token: Secret, api_url: str) -> None:
        self._token = token
        self._api_url = api_url

    async def call(self, method: TelegramMethod[T], seconds: int = ANSWER_SECONDS) -> T:
        try:
            return await self._bot(method, request_timeout=seconds)
        except AiogramError as cause:
            has_token = self._token.is_in(str(cause))
            raise _translated(cause, self._token.masked_in(str(cause))) from None if has_token else cause

    async def content(self, file_path: str) -> AsyncGenerator[bytes, None]:
        """The bytes of a file that `getFile` has named, in chunks."""
        session = self._bot.session
        url = session.api.file_url(self._bot.token, file_path)
        try:
            async with aclosing(session.stream_content(url, timeout=TRANSFER_SECONDS)) as chunks:
                async for chunk in chunks:
                    yield chunk
        except (ClientError, TimeoutError) as cause:
            # The cause names the address, and with it the token.
            raise Unreachable(f"a file could not be fetched: {type(cause).__name__}") from None

    async def close(self) -> None:
        if "_bot" in self.__dict__:
            await self._bot.session.close()

    @cached_property
    def _bot(self) -> Bot:
        session = AiohttpSession(api=TelegramAPIServer.from_base(self._api_url))
        try:
            return Bot(self._token.reveal(), session=session)
        except TokenValidationError:
            raise SignInRefused("the token of a Telegram bot looks like 123456:ABC-DEF") from None


def says(refused: SendRefused, texts: Sequence[str]) -> bool:
    """Whether Telegram refused for one of these reasons; it tells them apart by their text alone."""
    return any(text in str(refused).lower() for text in texts)


def _translated(cause: AiogramError, text: str) -> ChatPlatformError:
    """The error of the port for one of aiogram's."""
    match cause:
        case TelegramRetryAfter():
            return SlowDown(cause.retry_after)
        case TelegramUnauthorizedError() | TelegramNotFound():  # 404: the token is not even well formed
            return SignInRefused(text)
        case TelegramConflictError():
            return TakenElsewhere(text)
        case TelegramEntityTooLarge():
            return FileTooLarge(text)
        case TelegramMigrateToChat():
            return GroupMoved(text, cause.migrate_to_chat_id)
        case TelegramBadRequest() | TelegramForbiddenError():
            return SendRefused(text)
    if isinstance(cause.__cause__, NEVER_WRITTEN):
        return NotTaken(text)
    return Unreachable(text)
