"""`Overview`: what people ask a host about conversations, as they are on record and as they run here."""

from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from itertools import pairwise

from holdfast.host.contract import (
    CompactedStretch,
    ContextView,
    HostParts,
    OpenAsk,
    SessionChange,
    SessionStatus,
    TurnView,
)
from holdfast.host.conversations import Conversations
from holdfast.host.records import Records
from holdfast.host.standing import open_asks
from holdfast.host.store_calls import StoreCalls
from holdfast.host.timeline import MS, turn_view


class Overview(Records):
    """Answers, and changes nothing."""

    def __init__(self, parts: HostParts) -> None:
        call = StoreCalls(parts.db, parts.pools.store)
        self._conversations = Conversations(parts, call)
        super().__init__(parts, call, self._conversations.changes.touched)
        self.source = parts.options.source
        self.model = parts.model
        self.tools = parts.tools
        self.problems = parts.problems

    async def asks(self, session_id: str) -> list[OpenAsk]:
        """The approvals and questions of this conversation that wait for a person, in whichever process."""
        live = await self._call(self._db.live_end, session_id)
        return open_asks(await self._call(self._db.asks.open, live), self._parts.clock.now())

    async def standing(self, root_ids: Collection[str]) -> list[SessionChange]:
        """How these conversations stand now, each named by its first session; one read for all of them."""
        return await self._conversations.standing(root_ids)

    async def changes(self) -> AsyncGenerator[SessionChange, None]:
        """Every conversation that is not idle, then each whenever it changes, here or in another process."""
        async with aclosing(self._conversations.changes.listen()) as changes:
            async for change in changes:
                yield change

    async def session_status(self, session_id: str) -> SessionStatus:
        """How one conversation stands."""
        conversation = await self._conversations.open(session_id)
        agent = self._conversations.agents.get(conversation.root_id)
        [now] = await self._conversations.standing([conversation.root_id])
        return SessionStatus(
            session_id=now.session_id,
            state=now.state,
            turn_id=conversation.running_turn,
            waiting=now.waiting,
            context_tokens=agent.context_tokens if agent else 0,
            context_window=self.model.context_window if self.model else 0,
            asking=now.asking,
        )

    async def context(self, session_id: str) -> ContextView:
        """What the conversation takes of the model's window, and the compactions behind it."""
        conversation = await self._conversations.open(session_id)
        used = await self._conversations.agent_of(conversation).context()
        compactions = await self._call(self._compactions, conversation.root_id)
        return ContextView(conversation.session_id, used.window, used.tokens, used.parts, tuple(compactions))

    def _compactions(self, root_id: str) -> list[CompactedStretch]:
        line = self._db.conversation(root_id)
        return [
            CompactedStretch(ended.id, child.id, child.started // MS, self._db.message_count(ended.id))
            for ended, child in pairwise(line)
        ]

    async def turn(self, turn_id: str) -> TurnView:
        """One turn as a timeline, with what memory recalled for it and how its deliveries stand."""
        record = await self._call(self._db.turns.look, turn_id)
        agent = self._conversations.agents.get(record.root_id)
        runs_here = agent is not None and agent.running_turn == turn_id
        return turn_view(record, agent.account if agent is not None and runs_here else None)
