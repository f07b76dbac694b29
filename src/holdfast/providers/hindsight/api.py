"""Calls to the Hindsight server through its client, on one event loop, with its errors as ours.

A turn is appended to the document of its session under a stable operation id. The server ignores a known id,
so a turn can be sent again. A turn is delivered when its operation is completed.
"""

import asyncio
import copy
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from holdfast.core.errors import HoldfastError, MemoryClosed, ProviderUnavailable, Undeliverable
from holdfast.core.messages import storable
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.hindsight.settings import HindsightSettings
from holdfast.providers.http_backend import CONFLICT, NEVER, client_failure, http_failure, transcript

T = TypeVar("T")

NAME = "hindsight"
NAMESPACE = uuid.UUID("6f0f6a3c-2a52-5f1e-9a39-2b6f2f6f6c11")
UNDER_WAY = frozenset({"pending", "processing"})
FIRST_LOOK = 0.1
MAX_PAUSE_SECONDS = 2.0
# During a shutdown, an operation on the server gets this long to finish.
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
            # The lane retries; a retry inside the client would hide that.
            max_attempts=1,
        )

    def in_bank(self, bank: str) -> "HindsightApi":
        """The same client for another bank; it is not closed by itself."""
        other = copy.copy(self)
        other._settings = replace(self._settings, bank=bank)  # noqa: SLF001 - its own copy
        return other

    async def aclose(self) -> None:
        await self._client.aclose()  # type: ignore[no-untyped-call]

    async def deliver(self, turns: Sequence[CompletedTurn]) -> None:
        """Deliver the turns: in order within a session, several sessions in parallel."""
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
        """Retain a single fact; the same text again is the same note."""
        note = uuid.uuid5(NAMESPACE, f"{self._settings.bank}\x00{text}")
        await self._retain(
            str(note),
            storable(text),
            document_id=f"note-{note}",
            context="a note that the assistant decided to keep",
            tags=[*self._settings.tags, *tags] or None,
        )

    async def delete_conversation(self, session_id: str) -> int:
        """Delete the document of a session with all facts from it; returns how many facts."""
        from hindsight_client_api.exceptions import NotFoundException

        try:
            answer = await self._client.documents.delete_document(
                self._settings.bank, session_id, _request_timeout=self._settings.timeout_s
            )
        except NotFoundException:
            return 0
        except Exception as error:
            raise translated(error) from error
        return int(answer.memory_units_deleted)

    async def _retain(self, operation: str, content: str, **facts: Any) -> None:  # noqa: ANN401 - the client's own
        if not content:
            return
        await self._request(
            self._client.aretain(
                bank_id=self._settings.bank,
                content=content,
                retain_async=True,
                operation_id=operation,
                **facts,
            )
        )
        await self._wait_processed(operation)

    async def _wait_processed(self, operation: str) -> None:
        """Wait until the server has processed an operation; restarts it once when it failed."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._settings.settle_s
        pause, restarted = FIRST_LOOK, False
        while True:
            state = await self._request(
                self._client.operations.get_operation_status(
                    self._settings.bank, operation, _request_timeout=self._settings.timeout_s
                )
            )
            if state.status == "completed":
                return
            if state.status not in UNDER_WAY:
                # The server ignores a known id, so the operation itself must be restarted.
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
            pause = min(pause * 1.5, MAX_PAUSE_SECONDS)

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
            await self._request(again)
        except Undeliverable as cause:
            # Only the restart was refused; the turn itself is valid.
            raise ProviderUnavailable(NAME, problem=str(cause)) from cause

    async def recall(self, query: str, *, budget: str, tokens: int, tags: Sequence[str]) -> list[Any]:
        """The facts for the query; none from a bank that does not exist yet."""
        from hindsight_client_api.exceptions import NotFoundException

        try:
            found = await self._client.arecall(
                self._settings.bank,
                storable(query),
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
        """The answer that the server's model gives from its memories."""
        answer = await self._request(
            self._client.areflect(
                self._settings.bank,
                storable(query),
                budget=budget,
                tags=list(tags) or None,
                tags_match="any_strict" if tags else "any",
            )
        )
        return str(answer.text)

    async def version(self) -> str:
        return str((await self._request(self._client.aget_version())).api_version)

    async def _request(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except Exception as error:
            raise translated(error) from error


def operation_id(bank: str, session_id: str, turn_id: str) -> str:
    """The same turn in the same bank has the same id in every process."""
    return str(uuid.uuid5(uuid.uuid5(NAMESPACE, bank), f"{session_id}\x00{turn_id}"))


def translated(error: Exception) -> HoldfastError:
    """The client's exception as one of our errors."""
    from aiohttp import ClientError
    from hindsight_client_api.exceptions import ApiException

    if isinstance(error, ApiException):
        headers = error.headers or {}
        never = NEVER | {CONFLICT}  # an operation id that belongs to something else
        reason_text = str(error.body or error.reason)
        return http_failure(NAME, error.status or 0, reason_text, headers.get("Retry-After"), never)
    return client_failure(NAME, error, ClientError)
