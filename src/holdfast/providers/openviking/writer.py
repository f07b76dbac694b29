"""Writes turns to OpenViking: sends them, commits them at a boundary, follows them until they are extracted.

All of it runs on the provider's one event loop. The lane waits for `deliver` and `commit`. `follow` runs in
the background and is resumed at the next start.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError, ProviderUnavailable
from holdfast.core.messages import storable
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.openviking.api import MESSAGES_PER_REQUEST, NAME, OpenVikingApi, ServerCommit
from holdfast.providers.openviking.ledger import CommitBatch, Ledger, LedgerEntry

logger = logging.getLogger(__name__)

FIRST_POLL_SECONDS = 0.25
MAX_POLL_SECONDS = 5.0
MAX_PAUSE_SECONDS = 300.0
# Longer than a request may take, so that no two processes resend the same batch.
HOLD_SECONDS = 120.0
# A batch that fails more often in one run waits for the next start.
MAX_RESENDS = 5


class OpenVikingWriter:
    """Sends, commits and follows batches; a process has one."""

    def __init__(self, api: OpenVikingApi, ledger: Ledger, clock: Clock) -> None:
        self._api = api
        self._ledger = ledger
        self._clock = clock
        self._writing = asyncio.Lock()  # one sender at a time, so that a session's messages keep their order

    async def deliver(self, turns: Sequence[CompletedTurn]) -> None:
        """Send the turns, each once; raises when the server may not have all of them."""
        sessions: dict[str, list[LedgerEntry]] = {}
        for turn in turns:
            entry = LedgerEntry(turn.key, turn.turn_id, _messages(turn))
            if entry.messages:
                sessions.setdefault(turn.session_id, []).append(entry)
        async with self._writing:
            for session, entries in sessions.items():
                await self._deliver_session(session, entries)

    async def _deliver_session(self, session: str, entries: Sequence[LedgerEntry]) -> None:
        for entry in entries:
            self._ledger.add(session, entry)
        keys = [entry.key for entry in entries]
        try:
            await self._resolve_doubtful(session, keys)
            for chunk in _chunks(self._ledger.unsent(keys)):
                sent = [entry.key for entry in chunk]
                self._ledger.mark_sending(sent)
                await self._api.add_messages(session, [each for entry in chunk for each in entry.messages])
                self._ledger.mark_sent(sent)
        except BaseException:
            self._ledger.forget_unsent(keys)
            raise

    async def _resolve_doubtful(self, session: str, keys: Sequence[str]) -> None:
        """Ask the server whether it has the turns of an earlier attempt that ended without an answer."""
        doubtful = [entry for entry in self._ledger.unsent(keys) if entry.in_doubt]
        if doubtful:
            there = await self._api.turns_in(session)
            self._ledger.mark_sent([entry.key for entry in doubtful if entry.turn in there])

    async def forget(self, sessions: Sequence[str]) -> tuple[int, int]:
        """Delete whole sessions, here and on the server, with the memories that were made of them alone.

        Returns how many sessions and memories the server had, and how many memories it keeps.
        """
        deleted, kept = 0, 0
        async with self._writing:
            for session in sessions:
                if await self._api.is_extracting(session):
                    raise ProviderUnavailable(NAME, problem="it still makes memories of the conversation")
                self._ledger.forget_session(session)
                made = await self._api.memories_made_of(session)
                kept += made.shared
                # The session goes last: without it nobody can tell what was made of it.
                deleted += sum([await self._api.delete_memory(each) for each in made.own])
                deleted += await self._api.delete_session(session)
        return deleted, kept

    async def commit(self, session: str) -> int | None:
        """Commit the sent turns of a session; returns the batch to follow, None when there is none."""
        async with self._writing:
            batch = self._ledger.begin_commit(session)
            if batch is not None:
                await self._post_commit(session, batch)
            return batch

    async def _post_commit(self, session: str, batch: int) -> None:
        commit = await self._api.commit(session)
        if commit is None:
            # The session is empty: an earlier commit, whose answer was lost, has taken the messages.
            commit = await self._api.last_commit(session)
        if commit is None:
            self._ledger.mark_failed(batch, "the server has neither the messages nor a commit of them")
        else:
            self._ledger.mark_extracting(batch, commit.task, commit.archive)

    async def follow(self, number: int) -> None:
        """Follow a batch until it is extracted, and send it again when the extraction failed."""
        pause, resends = FIRST_POLL_SECONDS, 0
        while (batch := self._ledger.batch(number)) is not None:
            try:
                if not self._ledger.hold(number, now=self._clock.now(), seconds=HOLD_SECONDS):
                    await asyncio.sleep(MAX_POLL_SECONDS)
                    continue
                after = await self._step(batch)
            except HoldfastError as error:
                logger.warning("memory.extraction_unknown", extra={"batch": number, "cause": repr(error)})
                await asyncio.sleep(pause)
                pause = min(pause * 2, MAX_PAUSE_SECONDS)
                continue
            if after != number:
                number, pause, resends = after, FIRST_POLL_SECONDS, resends + 1
                if resends > MAX_RESENDS:
                    logger.error("memory.extraction_given_up", extra={"session": batch.session})
                    return
                # The first retry is immediate, the later ones wait longer: the server's model may be down.
                await asyncio.sleep(min(float(2**resends) - 2, MAX_PAUSE_SECONDS))
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, MAX_POLL_SECONDS)

    async def _step(self, batch: CommitBatch) -> int:
        """Advance a batch by one step; returns its number, which changes when it is sent again."""
        if batch.state == "committing":
            async with self._writing:
                await self._post_commit(batch.session, batch.id)
        elif batch.state == "extracting":
            await self._check_extraction(batch)
        else:
            return await self._resend(batch)
        return batch.id

    async def _check_extraction(self, batch: CommitBatch) -> None:
        state, problem = await self._api.extraction(batch.session, ServerCommit(batch.task, batch.archive))
        if state == "done":
            self._ledger.mark_done(batch.id)
        elif state != "running":
            logger.warning("memory.extraction_failed", extra={"session": batch.session, "cause": problem})
            self._ledger.mark_failed(batch.id, problem)

    async def _resend(self, batch: CommitBatch) -> int:
        """Send and commit the turns again: the server deletes the messages of a failed extraction."""
        async with self._writing:
            there = await self._api.turns_in(batch.session)
            missing = [entry for entry in self._ledger.turns_of(batch.id) if entry.turn not in there]
            for chunk in _chunks(missing):
                await self._api.add_messages(
                    batch.session, [each for entry in chunk for each in entry.messages]
                )
            after = self._ledger.begin_next_attempt(batch)
            await self._post_commit(batch.session, after)
        return after


def _chunks(entries: Sequence[LedgerEntry]) -> list[list[LedgerEntry]]:
    """Group whole turns into requests of limited size."""
    chunks: list[list[LedgerEntry]] = []
    room = 0
    for entry in entries:
        if len(entry.messages) > room:
            chunks.append([])
            room = MESSAGES_PER_REQUEST
        chunks[-1].append(entry)
        room -= len(entry.messages)
    return chunks


def _messages(turn: CompletedTurn) -> list[dict[str, Any]]:
    when = datetime.fromtimestamp(turn.completed, UTC).isoformat()
    parts = (("user", storable(turn.user_content)), ("assistant", storable(turn.assistant_content)))
    return [
        {"role": role, "content": text, "turn_id": turn.turn_id, "created_at": when}
        for role, text in parts
        if text.strip()
    ]
