"""What a new start finds of earlier lives: owed deliveries, uncommitted memory, cut-off turns, waiting words.

All of it is looked after in the background; none of it delays the first prompt. Deliveries need nothing
here: a provider's lane finds what it is owed by itself.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from holdfast.agent.recovery import describe
from holdfast.core.events import TurnUnfinished
from holdfast.host.contract import HostParts
from holdfast.host.conversation import Conversation
from holdfast.process import off_loop

logger = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")


class Recovery:
    """The start-up look. `unfinished` and `waiting` name the sessions it found."""

    def __init__(self, parts: HostParts) -> None:
        self._parts = parts
        self.unfinished: list[str] = []
        self.waiting: list[str] = []
        self.done = False

    async def run(self, open_one: Callable[[str], Awaitable[Conversation]]) -> None:
        try:
            await self._unfinished(open_one)
            await self._waiting(open_one)
            await self._uncommitted(open_one)
        finally:
            self.done = True

    async def _unfinished(self, open_one: Callable[[str], Awaitable[Conversation]]) -> None:
        for turn in await self._call(self._parts.db.turns.unfinished):
            if await self._call(self._parts.db.session_holder, turn.session_id) is not None:
                continue  # it runs, in another process
            messages = await self._call(self._parts.db.turns.messages, turn.id)
            found = describe(turn, messages, await self._call(self._parts.db.turns.partial, turn.id))
            conversation = await open_one(turn.session_id)
            if conversation.running_turn == turn.id:
                continue
            self.unfinished.append(turn.session_id)
            conversation.stream.publish(
                TurnUnfinished(
                    session_id=turn.session_id,
                    turn_id=turn.id,
                    text=found.said,
                    open_calls=found.open_calls,
                )
            )

    async def _waiting(self, open_one: Callable[[str], Awaitable[Conversation]]) -> None:
        for session_id in await self._call(self._parts.db.inbox.sessions):
            conversation = await open_one(session_id)
            self.waiting.append(session_id)
            if self._parts.options.take_over:
                conversation.poke()

    async def _uncommitted(self, open_one: Callable[[str], Awaitable[Conversation]]) -> None:
        for session_id in await self._call(self._parts.lifecycle.recover):
            if await self._call(self._parts.db.session_holder, session_id) is not None:
                continue  # its own process commits it
            conversation = await open_one(session_id)
            agent = self._parts.make_agent(session_id, conversation.questions)
            await off_loop(
                self._parts.pools.work, self._parts.lifecycle.commit_session_memory, session_id, agent
            )

    async def _call(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await off_loop(self._parts.pools.store, fn, *args, **kwargs)
