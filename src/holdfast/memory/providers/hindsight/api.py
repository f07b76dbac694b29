"""Hindsight's server through its own client, on one event loop: each call, and what its failures mean.

A turn is appended to its session's document under a stable operation id. The server ignores an id that it
knows, so sending again is safe; a turn is delivered once its operation is completed.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from holdfast.core.errors import HoldfastError, MemoryClosed, ProviderUnavailable, Undeliverable
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.providers.hindsight.settings import HindsightSettings
from holdfast.memory.providers.wire import CONFLICT, NEVER, refused, sendable, transcript

T = TypeVar("T")

NAME = "hindsight"
NAMESPACE = uuid.UUID("6f0f6a3c-2a52-5f1e-9a39-2b6f2f6f6c11")
UNDER_WAY = frozenset({"pending", "processing"})
FIRST_LOOK = 0.1
LONGEST_PAUSE = 2.0
# After the end of the program has begun, an operation that the server has may still finish for so long.
GRACE_SECONDS = 2.0


class HindsightApi:
    """Used on one event loop only; `aclose` there."""

    def __init__(self, settings: HindsightSettings, closing: Callable[[], bool]) -> None:
        from hindsight_client import Hindsight

        self._settings = settings
        self._closing = closing
        self._client = Hindsight(
            base_url=settings.url,
            api_key=settings.key.reveal() or None,
            timeout=settings.timeout_s,
            # The lane decides when to try again; a second clock inside the client would only hide it.
            max_attempts=1,
        )

    async def aclose(self) -> None:
        await self._client.aclose()  # type: ignore[no-untyped-call]

    async def deliver(self, turns: Sequence[CompletedTurn]) -> None:
        """Have the server take the turns: in order within a session, sessions side by side."""
        sessions: dict[str, list[CompletedTurn]] = {}
        for turn in turns:
            sessions.setdefault(turn.session_id, []).append(turn)
        done = await asyncio.gather(*map(self._deliver_session, sessions.values()), return_exceptions=True)
        for problem in done:
            if problem is not None:
                raise problem

    async def _deliver_session(self, turns: Sequence[CompletedTurn]) -> None:
        for turn in turns:
            if self._closing():
                raise MemoryClosed(NAME)
            await self._retain(
                operation_id(self._settings.bank, turn.session_id, turn.turn_id),
                transcript(turn),
                document_id=turn.session_id,
                context="a conversation between a user and an assistant",
                timestamp=datetime.fromtimestamp(turn.completed, UTC),
                metadata={"session": turn.session_id, "turn": turn.turn_id},
                update_mode="append",
                tags=list(self._settings.tags) or None,
            )

    async def keep_note(self, text: str, tags: Sequence[str]) -> None:
        """Retain a fact by itself; the same words again are the same note."""
        note = uuid.uuid5(NAMESPACE, f"{self._settings.bank}\x00{text}")
        await self._retain(
            str(note),
            sendable(text),
            document_id=f"note-{note}",
            context="a note that the assistant decided to keep",
            tags=[*self._settings.tags, *tags] or None,
        )

    async def _retain(self, operation: str, content: str, **facts: Any) -> None:  # noqa: ANN401 - the client's own
        if not content:
            return
        await self._ask(
            self._client.aretain(
                bank_id=self._settings.bank,
                content=content,
                retain_async=True,
                operation_id=operation,
                **facts,
            )
        )
        await self._settled(operation)

    async def _settled(self, operation: str) -> None:
        """Wait until the server has processed an operation; one that failed there is set going again."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.settle_s
        pause, restarted = FIRST_LOOK, False
        while True:
            state = await self._ask(
                self._client.operations.get_operation_status(
                    self._settings.bank, operation, _request_timeout=self._settings.timeout_s
                )
            )
            if state.status == "completed":
                return
            if state.status not in UNDER_WAY:
                # The id is known, so sending again would be ignored: the operation itself must run again.
                if restarted:
                    raise ProviderUnavailable(
                        NAME, problem=f"it could not process a turn: {state.error_message}"
                    )
                await self._restart(operation)
                restarted, pause = True, FIRST_LOOK
            if self._closing():
                deadline = min(deadline, clock() + GRACE_SECONDS)
            if clock() >= deadline:
                raise self._still_under_way()
            await asyncio.sleep(min(pause, max(0.0, deadline - clock())))
            pause = min(pause * 1.5, LONGEST_PAUSE)

    def _still_under_way(self) -> HoldfastError:
        if self._closing():
            return MemoryClosed(NAME)
        return ProviderUnavailable(
            NAME, problem="it is still processing a turn; it will be asked again later"
        )

    async def _restart(self, operation: str) -> None:
        again = self._client.operations.retry_operation(
            self._settings.bank, operation, _request_timeout=self._settings.timeout_s
        )
        try:
            await self._ask(again)
        except Undeliverable as cause:
            # Only this operation could not be set going; the turn itself is not at fault.
            raise ProviderUnavailable(NAME, problem=str(cause)) from cause

    async def recall(self, query: str, *, budget: str, tokens: int, tags: Sequence[str]) -> list[Any]:
        """What fits the query; nothing from a bank that has not been written to yet."""
        from hindsight_client_api.exceptions import NotFoundException

        try:
            found = await self._client.arecall(
                self._settings.bank,
                sendable(query),
                budget=budget,
                max_tokens=tokens,
                tags=list(tags) or None,
                tags_match="any_strict" if tags else "any",
            )
        except NotFoundException:
            return []
        except Exception as error:
            raise translated(error) from error
        return list(found.results)

    async def reflect(self, query: str, *, budget: str, tags: Sequence[str]) -> str:
        """An answer that the server thinks out over what it remembers."""
        answer = await self._ask(
            self._client.areflect(
                self._settings.bank,
                sendable(query),
                budget=budget,
                tags=list(tags) or None,
                tags_match="any_strict" if tags else "any",
            )
        )
        return str(answer.text)

    async def version(self) -> str:
        return str((await self._ask(self._client.aget_version())).api_version)

    async def _ask(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except Exception as error:
            raise translated(error) from error


def operation_id(bank: str, session_id: str, turn_id: str) -> str:
    """The same turn in the same bank has the same id, in whatever process."""
    return str(uuid.uuid5(uuid.uuid5(NAMESPACE, bank), f"{session_id}\x00{turn_id}"))


def translated(error: Exception) -> HoldfastError:
    """What the client raised, by what can be done about it."""
    from aiohttp import ClientError
    from hindsight_client_api.exceptions import ApiException

    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, ApiException):
        headers = error.headers or {}
        never = NEVER | {CONFLICT}  # an operation id that belongs to something else
        said = str(error.body or error.reason)
        return refused(NAME, error.status or 0, said, headers.get("Retry-After"), never)
    if isinstance(error, (TimeoutError, ClientError, OSError)):
        reason = str(error) or "no answer in time"
        return ProviderUnavailable(NAME, problem=f"{type(error).__name__}: {reason}")
    return ProviderUnavailable(
        NAME, problem=f"its answer can't be understood ({type(error).__name__}: {error})"
    )
