"""`Overview`: what people ask a host about itself and its conversations, as they are on record and here."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

from holdfast.agent.tool_profile import ToolProfile
from holdfast.agent.transcript import Transcript
from holdfast.host.contract import (
    CompactedStretch,
    ContextSize,
    ContextView,
    ConversationStatus,
    HostParts,
    HostStatus,
    OpenAsk,
    TurnDetails,
)
from holdfast.host.conversation import Conversation
from holdfast.host.conversation_status import open_asks
from holdfast.host.conversations import Conversations
from holdfast.host.recovery import Recovery
from holdfast.host.store_calls import StoreCalls
from holdfast.host.timeline import MS, turn_details
from holdfast.host.usage_reports import total_of
from holdfast.models.contract import ModelTraits

MEMORY_SECONDS = 1.0
"""How long memory may take to say what it adds to a prompt, when only its size is asked for."""


class Overview:
    """Answers, and changes nothing. Every method on the host's loop."""

    def __init__(
        self,
        parts: HostParts,
        call: StoreCalls,
        conversations: Conversations,
        recovery: Recovery,
        model: Callable[[], ModelTraits | None],
    ) -> None:
        """`model` tells which one answers now."""
        self._parts = parts
        self._db = parts.db
        self._call = call
        self._conversations = conversations
        self._recovery = recovery
        self._model = model

    async def status(self) -> HostStatus:
        """How the whole stands."""
        opened = list(self._conversations.opened.values())
        return HostStatus(
            store=self._db.location,
            running=[each.session_id for each in opened if each.running_turn],
            waiting=await self._call(self._db.inbox.sessions),
            unfinished=await self._call(self._recovery.cut_off_sessions),
            memory=await self._call(self._parts.memory.status),
            recovering=not self._recovery.done,
            sandbox=(await self._parts.sandbox()).text,
            workspace=self._parts.workspace,
            approval=self._parts.approval,
            tool_profile=str(await self.tool_profile()),
            troubles={each.session_id: each.trouble for each in opened if each.trouble},
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems for a person to read: what was left out at the start, what is wrong with memory now."""
        return (*self._parts.problems, *self._parts.memory.problems())

    async def asks(self, session_id: str) -> list[OpenAsk]:
        """The approvals and questions of this conversation that wait for a person, in whichever process."""
        live = await self._call(self._db.sessions.live_end, session_id)
        return open_asks(await self._call(self._db.asks.open, live), self._parts.clock.now())

    async def statuses(self, root_ids: Collection[str]) -> list[ConversationStatus]:
        """How these conversations stand now, each named by its first session; one read for all of them."""
        return await self._conversations.statuses(root_ids)

    def changes(self) -> AsyncGenerator[ConversationStatus, None]:
        """Every conversation that is not idle, then each whenever it changes, here or in another process."""
        return self._conversations.changes.listen()

    async def session_status(self, session_id: str) -> ConversationStatus:
        """How one conversation stands."""
        conversation = await self._conversations.open(session_id)
        [now] = await self._conversations.statuses([conversation.root_id])
        return now

    async def context_size(self, session_id: str) -> ContextSize:
        """How full the model's window is with this conversation."""
        conversation = await self._conversations.open(session_id)
        if conversation.choice is None:
            await conversation.read_choice()
        tokens, window = await self._context_tokens(conversation)
        chose = conversation.choice is not None and conversation.choice.model
        return ContextSize(tokens, window if chose else self._usual_window())

    async def _context_tokens(self, conversation: Conversation) -> tuple[int, int]:
        """The size of the prompt and of the window; what memory adds is left out when it takes too long."""
        agent = await self._conversations.agent_of(conversation)
        with suppress(TimeoutError):
            async with asyncio.timeout(MEMORY_SECONDS):
                used = await agent.context()
                return used.tokens, used.window
        messages = await self._call(self._db.get_messages, conversation.session_id)
        return Transcript(messages).tokens, self._usual_window()

    def _usual_window(self) -> int:
        model = self._model()
        return model.context_window if model else 0

    async def context(self, session_id: str) -> ContextView:
        """How the conversation fills the model's window, and its compactions."""
        conversation = await self._conversations.open(session_id)
        used = await (await self._conversations.agent_of(conversation)).context()
        compactions = await self._call(self._compactions, conversation.root_id)
        return ContextView(conversation.session_id, used.window, used.tokens, used.parts, tuple(compactions))

    def _compactions(self, root_id: str) -> list[CompactedStretch]:
        sessions = self._db.sessions
        return [
            CompactedStretch(ended.id, child.id, child.started // MS, sessions.message_count(ended.id))
            for ended, child in pairwise(sessions.conversation(root_id))
        ]

    async def tool_profile(self, session_id: str | None = None) -> ToolProfile:
        """Which tools the model is told of in a conversation or, without one, where none is chosen."""
        wanted = await self._call(self._db.conversations.tool_profile, session_id) if session_id else ""
        traits = self._model() or ModelTraits("no model", 0, calls_tools=False)
        return self._parts.tool_profiles.of(traits, wanted)

    @property
    def tool_profiles(self) -> tuple[str, ...]:
        """The names of the tool profiles that there are."""
        return self._parts.tool_profiles.names

    async def turn(self, turn_id: str) -> TurnDetails:
        """One turn as a timeline, with what memory recalled for it and how its deliveries stand."""
        record = await self._call(self._db.turns.history, turn_id)
        agent = self._conversations.agents.get(record.root_id)
        runs_here = agent is not None and agent.running_turn == turn_id
        details = turn_details(record, agent.timeline if agent is not None and runs_here else None)
        used = await self._call(lambda: self._db.usage.read(turn_id=turn_id))
        return replace(details, usage=total_of(used)) if used else details
