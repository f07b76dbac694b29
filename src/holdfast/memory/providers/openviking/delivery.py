"""How turns get into OpenViking: sent in batches, committed at a boundary, followed until they are extracted.

Everything here runs on the provider's one event loop. `Writer.deliver` and `Writer.commit` are what the lane
waits for; `Writer.follow` goes on by itself and is taken up again at the next start.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from holdfast.core.contract import Clock
from holdfast.core.errors import HoldfastError
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.providers.openviking.api import BATCH, Commit, OpenVikingApi
from holdfast.memory.providers.openviking.ledger import Entry, Ledger, Stretch
from holdfast.memory.providers.wire import sendable

logger = logging.getLogger(__name__)

FIRST_LOOK = 0.25
LONGEST_LOOK = 5.0
LONGEST_REST = 300.0
# Longer than a request may take, so that no other process resends what this one is resending.
HOLD_SECONDS = 120.0
# A stretch that fails this often in one run waits for the next start.
MOST_RESENDS = 5


class Writer:
    """The one sender of this process."""

    def __init__(self, api: OpenVikingApi, ledger: Ledger, clock: Clock) -> None:
        self._api = api
        self._ledger = ledger
        self._clock = clock
        self._writing = asyncio.Lock()  # one sender at a time, so that a session's messages keep their order

    async def deliver(self, turns: Sequence[CompletedTurn]) -> None:
        """Have the server take the turns, each once; raises when one of them is not known to be there."""
        sessions: dict[str, list[Entry]] = {}
        for turn in turns:
            entry = Entry(turn.key, turn.turn_id, _messages(turn))
            if entry.messages:
                sessions.setdefault(turn.session_id, []).append(entry)
        async with self._writing:
            for session, entries in sessions.items():
                await self._deliver_session(session, entries)

    async def _deliver_session(self, session: str, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._ledger.add(entry.key, session, entry)
        keys = [entry.key for entry in entries]
        try:
            await self._settle_doubts(session, keys)
            for batch in _batches(self._ledger.unsent(keys)):
                sent = [entry.key for entry in batch]
                self._ledger.sending(sent)
                await self._api.add_messages(session, [each for entry in batch for each in entry.messages])
                self._ledger.sent(sent)
        except BaseException:
            self._ledger.forget_unsent(keys)
            raise

    async def _settle_doubts(self, session: str, keys: Sequence[str]) -> None:
        """Ask the server for what it had been sent when an earlier attempt ended without an answer."""
        doubtful = [entry for entry in self._ledger.unsent(keys) if entry.in_doubt]
        if doubtful:
            there = await self._api.turns_in(session)
            self._ledger.sent([entry.key for entry in doubtful if entry.turn in there])

    async def commit(self, session: str) -> int | None:
        """Have what was sent for a session extracted; returns what to follow, None for nothing."""
        async with self._writing:
            stretch = self._ledger.begin_commit(session)
            if stretch is not None:
                await self._post_commit(session, stretch)
            return stretch

    async def _post_commit(self, session: str, stretch: int) -> None:
        commit = await self._api.commit(session)
        if commit is None:
            # Nothing waits there: an earlier commit, whose answer was lost, took it all.
            commit = await self._api.last_commit(session)
        if commit is None:
            self._ledger.failed(stretch, "the server has neither the messages nor a commit of them")
        else:
            self._ledger.committed(stretch, commit.task, commit.archive)

    async def follow(self, number: int) -> None:
        """See a stretch through to its extraction: wait, and send it again when that failed."""
        rest, resends = FIRST_LOOK, 0
        while (stretch := self._ledger.stretch(number)) is not None:
            try:
                if not self._ledger.hold(number, now=self._clock.now(), seconds=HOLD_SECONDS):
                    await asyncio.sleep(LONGEST_LOOK)
                    continue
                after = await self._step(stretch)
            except HoldfastError as error:
                logger.warning("memory.extraction_unknown", extra={"stretch": number, "cause": repr(error)})
                await asyncio.sleep(rest)
                rest = min(rest * 2, LONGEST_REST)
                continue
            if after != number:
                number, rest, resends = after, FIRST_LOOK, resends + 1
                if resends > MOST_RESENDS:
                    logger.error("memory.extraction_given_up", extra={"session": stretch.session})
                    return
                # The first time at once, then ever later: a model that is down stays down for a while.
                await asyncio.sleep(min(float(2**resends) - 2, LONGEST_REST))
            else:
                await asyncio.sleep(rest)
                rest = min(rest * 1.5, LONGEST_LOOK)

    async def _step(self, stretch: Stretch) -> int:
        """Bring a stretch one step further; returns its number, which is another once it was resent."""
        if stretch.state == "committing":
            async with self._writing:
                await self._post_commit(stretch.session, stretch.id)
        elif stretch.state == "extracting":
            await self._look(stretch)
        else:
            return await self._resend(stretch)
        return stretch.id

    async def _look(self, stretch: Stretch) -> None:
        state, problem = await self._api.extraction(stretch.session, Commit(stretch.task, stretch.archive))
        if state == "done":
            self._ledger.done(stretch.id)
        elif state != "running":
            logger.warning("memory.extraction_failed", extra={"session": stretch.session, "cause": problem})
            self._ledger.failed(stretch.id, problem)

    async def _resend(self, stretch: Stretch) -> int:
        """The server cleared the messages when it failed, so they are sent and committed again."""
        async with self._writing:
            there = await self._api.turns_in(stretch.session)
            missing = [entry for entry in self._ledger.turns_of(stretch.id) if entry.turn not in there]
            for batch in _batches(missing):
                await self._api.add_messages(
                    stretch.session, [each for entry in batch for each in entry.messages]
                )
            after = self._ledger.resent(stretch)
            await self._post_commit(stretch.session, after)
        return after


def _batches(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Whole turns, as many as one request holds."""
    batches: list[list[Entry]] = []
    room = 0
    for entry in entries:
        if len(entry.messages) > room:
            batches.append([])
            room = BATCH
        batches[-1].append(entry)
        room -= len(entry.messages)
    return batches


def _messages(turn: CompletedTurn) -> list[dict[str, Any]]:
    when = datetime.fromtimestamp(turn.completed, UTC).isoformat()
    said = (("user", sendable(turn.user_content)), ("assistant", sendable(turn.assistant_content)))
    return [
        {"role": role, "content": text, "turn_id": turn.turn_id, "created_at": when}
        for role, text in said
        if text.strip()
    ]
