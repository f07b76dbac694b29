"""`HostCommands`: what a person does with a conversation between its turns.

To clear it, to go back in it, to say the last message again, to compact it, and to decide about a turn that a
crash cut off. Going back never changes what was said: it makes a branch. What changes a session that goes on
runs under the conversation's lease (`session_commands.py`).
"""

from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.agent import SessionAgent, Unfinished
from holdfast.core.errors import InvalidInput
from holdfast.core.ids import id_for
from holdfast.host.contract import Accepted, HostParts
from holdfast.host.conversation import Conversation
from holdfast.host.conversations import Conversations
from holdfast.host.records import Records
from holdfast.host.recovery import Recovery
from holdfast.host.store_calls import StoreCalls
from holdfast.sessions.contract import SessionStart


class HostCommands:
    """The commands of a host's conversations. Every method on the host's loop."""

    def __init__(
        self,
        parts: HostParts,
        call: StoreCalls,
        conversations: Conversations,
        records: Records,
        recovery: Recovery,
        send: Callable[..., Awaitable[Accepted]],
    ) -> None:
        """`send` is `SessionHost.send`."""
        self._db = parts.db
        self._memory = parts.memory
        self._source = parts.options.source
        self._recovers = parts.options.recovers
        self._call = call
        self._conversations = conversations
        self._records = records
        self._recovery = recovery
        self._send = send

    async def clear(self, session_id: str, *, key: str | None = None) -> str:
        """End a conversation and begin an empty one. What was said stays on record; `key` as in `branch`."""
        fresh_id, made = await self._records.made_by("clear", session_id, key)
        if made is not None:
            return made
        conversation = await self._conversations.open(session_id)
        fresh = SessionStart(fresh_id, self._source, None, conversation.scope)

        async def end(agent: SessionAgent) -> None:
            if await agent.unfinished() is not None:
                await conversation.publisher.drop(agent)
            await self._call(self._db.sessions.end, agent.session_id, "cleared", then=fresh)

        await conversation.run_command(end)
        self._conversations.begun(fresh_id, conversation.scope)
        self._conversations.changes.touched(conversation.root_id)
        self._conversations.part_with(conversation)
        return fresh_id

    async def truncate(self, session_id: str, *, before: int, key: str | None = None) -> str:
        """Go on as if nothing from a message on had been said, in a branch; the original stays on record.

        Memory forgets the turns that are taken back; permissions given in them end. `key` as with `branch`.
        """
        conversation = await self._conversations.idle(session_id)
        # A key of a branch that was asked for as such is another one.
        own = None if key is None else id_for("truncate", key)
        memory = self._memory
        names = memory.provider_names or None
        branch = await self._records.branch(session_id, before=before, key=own, forget_in=names)
        if names:
            await self._call(memory.forgetter.wake)
        self._conversations.commit_later(conversation)
        await self._conversations.keep_grants(conversation, branch, before)
        return branch

    async def retry(self, session_id: str, *, key: str | None = None) -> str:
        """Say the last message again, as if it had not been answered; returns the session it is in.

        The same `key` again says nothing more.
        """
        said_with = None if key is None else id_for("retry", session_id, key)
        if said_with is not None and (said := await self._call(self._db.inbox.by_key, said_with)) is not None:
            return await self._call(self._db.sessions.live_end, said.session_id)
        conversation = await self._conversations.idle(session_id)
        unfinished = await self._cut_off_in(conversation)
        if unfinished is not None:
            await conversation.run_command(conversation.publisher.drop)
            await self._send(session_id, unfinished.message, key=said_with)
            return conversation.session_id
        stored = await self._records.messages(session_id)
        last = next((each.turn_id for each in reversed(stored) if each.turn_id is not None), None)
        first = next((each for each in stored if each.turn_id == last and last is not None), None)
        if first is None or first.message["role"] != "user":
            raise InvalidInput("there is nothing to say again in this session")
        branch = await self.truncate(session_id, before=first.seq, key=said_with)
        await self._send(branch, first.message, key=said_with)
        return branch

    async def compact(self, session_id: str, focus: str = "") -> str:
        """Compact the conversation now; returns the session in which it goes on."""
        conversation = await self._conversations.open(session_id)
        await conversation.run_command(
            lambda agent: conversation.publisher.show(agent, partial(agent.compact, focus=focus))
        )
        return await self._call(self._db.sessions.live_end, session_id)

    async def unfinished(self, session_id: str) -> Unfinished | None:
        """The turn that a crash cut off here, to be resumed, retried or dropped.

        None on a host that recovers by itself (`HostOptions.after_crash`): there nobody has to decide.
        """
        conversation = await self._conversations.open(session_id)
        return None if self._recovers else await self._cut_off_in(conversation)

    async def resume(self, session_id: str) -> None:
        """Go on with the unfinished turn, then with what waits behind it; ends when that turn has ended."""
        conversation = await self._conversations.open(session_id)
        conversation.unpark()
        await conversation.run_command(conversation.publisher.resume)

    async def drop(self, session_id: str) -> None:
        """End the unfinished turn; what it had produced stays on record. What waits behind it runs."""
        conversation = await self._conversations.open(session_id)
        conversation.unpark()
        await conversation.run_command(conversation.publisher.drop)

    async def run_waiting(self, session_id: str) -> None:
        """Run the messages that waited here when the host started."""
        (await self._conversations.open(session_id)).run_waiting()

    async def _cut_off_in(self, conversation: Conversation) -> Unfinished | None:
        if conversation.is_served:
            return None
        return await self._call(self._recovery.cut_off, conversation.root_id)
