"""`Conversations`: the conversations that this process has opened, and the agents it keeps for them."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType

from holdfast.agent import Agent
from holdfast.core.errors import HostClosed, SessionElsewhere, SessionExists, TurnAlreadyRunning
from holdfast.host.agents import AgentCache
from holdfast.host.changes import Changes
from holdfast.host.contract import HostParts, SessionChange
from holdfast.host.conversation import Conversation
from holdfast.host.ears import Ears
from holdfast.host.holders import holder_name, living_holder
from holdfast.host.pulse import Pulse
from holdfast.host.standing import asked_elsewhere, change_of, gone
from holdfast.host.store_calls import StoreCalls
from holdfast.process import off_loop
from holdfast.sessions import News, Standing

logger = logging.getLogger(__name__)

LOOKS = 4
"""How many of a host's polls pass between looks at all conversations, while somebody listens."""


class Conversations:
    """Opened by the id of any of their sessions, known by their roots."""

    def __init__(self, parts: HostParts, call: StoreCalls) -> None:
        self._parts = parts
        self._db = parts.db
        self._call = call
        self._opened: dict[str, Conversation] = {}
        self.holder = holder_name()
        self.agents = AgentCache(parts.lifecycle, parts.pools, parts.clock, parts.options)
        poll = parts.options.poll_seconds
        self._ears = Ears(parts.db, parts.pools.store, poll)
        self.changes = Changes(self.standing, self._news, LOOKS * poll, Pulse(self._news, poll))

    @property
    def opened(self) -> Mapping[str, Conversation]:
        """By their roots, to be looked at."""
        return MappingProxyType(self._opened)

    async def open(self, session_id: str, *, create: bool = False) -> Conversation:
        """The conversation a session belongs to."""
        root_id, live, last = await self._call(self._place, session_id, create)
        if self._call.closed:
            raise HostClosed
        if root_id in self._opened:
            return self._opened[root_id]
        opened = self._add(root_id, live)
        if not self._parts.options.take_over:
            # What waits before anybody has spoken here was left behind by another life.
            opened.park(last)
        return opened

    async def opened_or_open(self, session_id: str, *, create: bool = False) -> Conversation:
        """The same, and one that is open here is not looked for: who writes to it hears if it is gone."""
        if session_id in self._opened and not self._call.closed:
            return self._opened[session_id]
        return await self.open(session_id, create=create)

    def begun(self, session_id: str) -> Conversation:
        """A session has just been made here: it is its own conversation."""
        if self._call.closed:
            raise HostClosed
        return self._opened.get(session_id) or self._add(session_id, session_id)

    def _add(self, root_id: str, live: str) -> Conversation:
        opened = self._opened[root_id] = Conversation(
            root_id, self._parts, self.agents, self.holder, self.changes, self._ears
        )
        opened.stream.session_id = live
        return opened

    def forget(self, conversation: Conversation) -> None:
        """Another process has deleted it."""
        conversation.retire()
        if self._opened.get(conversation.root_id) is conversation:
            del self._opened[conversation.root_id]
            self.agents.drop(conversation.root_id)

    def _place(self, session_id: str, create: bool) -> tuple[str, str, int]:
        """Its conversation's first session, the one it goes on in, and the last message that waits there."""
        if create and self._db.get_session(session_id) is None:
            with suppress(SessionExists):
                self._db.create_session(session_id, source=self._parts.options.source)
        lineage = self._db.lineage(session_id)
        waiting = self._db.inbox.waiting(lineage[-1])
        return lineage[0], lineage[-1], waiting[-1].id if waiting else 0

    async def idle(self, session_id: str) -> Conversation:
        """The conversation, while no turn of it runs anywhere."""
        conversation = await self.open(session_id)
        if conversation.running_turn is not None:
            raise TurnAlreadyRunning(conversation.session_id, conversation.running_turn)
        holder = await self._call(living_holder, self._db, conversation.root_id)
        if holder not in (None, self.holder):
            raise SessionElsewhere(conversation.session_id, holder)
        return conversation

    async def standing(self, roots: Collection[str]) -> list[SessionChange]:
        """How conversations stand, named by their roots, in one read; one that is not there is deleted."""
        standings, asked = await self._call(self._living, list(roots))
        found = {each.root_id: each for each in standings}
        return [
            change_of(found[root], self._opened.get(root), self.holder, asked.get(root, 0))
            if root in found
            else gone(root)
            for root in roots
        ]

    def _living(self, roots: list[str]) -> tuple[list[Standing], dict[str, int]]:
        """As the store has them, and what others ask there; a holder that is provably gone holds nothing."""
        standings = [
            each
            if each.holder in (None, self.holder)
            else replace(each, holder=living_holder(self._db, each.root_id))
            for each in self._db.standings(roots)
        ]
        return standings, asked_elsewhere(self._db, standings, self.holder)

    async def _news(self, since: int | None) -> News:
        return await self._call(self._db.news, since)

    def agent_of(self, conversation: Conversation) -> Agent:
        """The agent that is warm, or a fresh one that nobody keeps."""
        return self.agents.get(conversation.root_id) or self._parts.make_agent(
            conversation.session_id, conversation.questions
        )

    async def commit(self, conversation: Conversation) -> None:
        """A boundary: what was said in the whole conversation is committed to memory, on nobody's turn."""
        async with self.agents.boundaries:
            agent = self.agent_of(conversation)
            for session_id in await self._call(self._db.lineage, conversation.root_id):
                await off_loop(
                    self._parts.pools.work,
                    self._parts.lifecycle.commit_session_memory,
                    session_id,
                    agent,
                    wait=True,
                )

    async def part_with(self, conversation: Conversation) -> None:
        """Commit an ended conversation's memory, and let its agent go."""
        await self.commit(conversation)
        await self.agents.evict(conversation.root_id)

    async def delete(self, conversation: Conversation, *, force: bool) -> None:
        """Delete it under its lease, and forget it here; raises what the store refuses."""
        sessions: list[str] = []

        async def remove(_: Agent) -> None:
            deleted = await self._call(
                self._db.delete_session, conversation.root_id, holder=self.holder, force=force
            )
            sessions.extend(deleted.sessions)
            conversation.retire()

        await conversation.wish(remove)
        self._opened.pop(conversation.root_id, None)
        self.agents.drop(conversation.root_id)
        self._parts.lifecycle.forget(*sessions)
        self.changes.touched(conversation.root_id)
        for each in sessions:
            await off_loop(self._parts.pools.work, self._parts.forget_outputs, each)

    async def sweep(self) -> None:
        """Let go of what is long unused, now and then."""
        options = self._parts.options
        while True:
            await asyncio.sleep(options.sweep_seconds)
            try:
                await self.agents.sweep()
                if self._parts.models is not None:
                    await self._parts.models.tidy()
            except Exception:
                logger.exception("host.sweep_failed")
            self._close_unused(options.idle_seconds)

    def _close_unused(self, seconds: float) -> None:
        """Let go of conversations that nobody has used for so long."""
        unused_since = self._parts.clock.monotonic() - seconds
        for root_id, each in list(self._opened.items()):
            if each.is_unused and root_id not in self.agents and each.used <= unused_since:
                del self._opened[root_id]
