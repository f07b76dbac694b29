"""`AgentWork`: what an agent does while this process holds its conversation, one thing at a time.

Three things run before any message: closing a turn's record that is still open here, settling its asks, and
commands. Then a turn that a dead process left open is resumed or closed, and the next message runs.
"""

from contextlib import suppress
from functools import partial

from holdfast.agent import SessionAgent, Unfinished
from holdfast.core.errors import NothingWaits, NotWaiting
from holdfast.host.after_crash import reason_to_close
from holdfast.host.ask_records import AskRecord
from holdfast.host.contract import HostParts
from holdfast.host.subagents import close_subagents_of
from holdfast.host.turn_publisher import TurnPublisher
from holdfast.sessions.contract import ConversationState


class AgentWork:
    """The work of one conversation. Everything on the host's loop, under the conversation's lease."""

    def __init__(self, root_id: str, parts: HostParts, publisher: TurnPublisher, asks: AskRecord) -> None:
        self._root_id = root_id
        self._parts = parts
        self._publisher = publisher
        self._asks = asks
        self.commands = publisher.commands

    async def run_before_messages(self, agent: SessionAgent) -> bool:
        """Do one thing that comes before messages; False when there is none."""
        if self._publisher.unclosed:
            await self._publisher.close_record(agent)
        elif self._asks.unsettled:
            await self._publisher.settle_asks(*self._asks.unsettled)
        elif self.commands:
            await self.commands.run_next(agent)
        else:
            return False
        return True

    async def run_turn(self, agent: SessionAgent, look: ConversationState) -> None:
        """Run the next message, or go on with the turn that a dead process left open."""
        if look.open_turn and (unfinished := await agent.unfinished()) is not None:
            await self._after_crash(agent, unfinished, look)
            return
        with suppress(NotWaiting, NothingWaits):  # withdrawn between the look and the taking
            await self._publisher.show(agent, partial(agent.run_turn, seen=look))

    async def _after_crash(
        self, agent: SessionAgent, unfinished: Unfinished, look: ConversationState
    ) -> None:
        """A dead process left this turn open: go on with it or close it, as the rule says."""
        await close_subagents_of(self._parts, self._root_id)
        asks = await self._asks.of_turn(unfinished.turn_id)
        why = reason_to_close(self._parts.options.after_crash, unfinished, look.waiting, asks)
        if why is None:
            await self._publisher.resume(agent)
        else:
            await self._publisher.drop(agent, why)
