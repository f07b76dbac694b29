"""`SessionHost`: runs sessions for every surface. A surface makes one call here and renders the events.

What a person does between turns is in its part `commands`, lookups and small changes are in `records`,
`overview`, `memory`, `choices`, `files`, `usage`, `accounts`.
Everything that can go wrong around a turn is solved once, in this package: queueing, interrupting, storing,
taking over from a dead process, remembering, recovering, stopping.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Never, Self

from holdfast.agent.tool_profile import ToolProfile
from holdfast.core.content import Checked
from holdfast.core.contract import Message
from holdfast.core.errors import HostNotStarted, InvalidInput, SessionBusy, SessionNotFound
from holdfast.core.events import INTERRUPTED, Event
from holdfast.core.ids import id_for
from holdfast.core.messages import as_edited, text_of
from holdfast.host.accounts import Accounts
from holdfast.host.ask_records import answer_ask
from holdfast.host.changed_files import ChangedFiles
from holdfast.host.chat_ledger import Chats
from holdfast.host.choice_admin import ChoiceAdmin
from holdfast.host.contract import (
    Accepted,
    AvailableModels,
    Beginning,
    HostParts,
    ModelCatalog,
    Numbered,
    UndoneTurn,
)
from holdfast.host.conversation import Conversation
from holdfast.host.conversations import Conversations
from holdfast.host.host_commands import HostCommands
from holdfast.host.memory_admin import MemoryAdmin
from holdfast.host.message_intake import MessageIntake, read_event_batches, reading
from holdfast.host.overview import Overview
from holdfast.host.records import Records
from holdfast.host.recovery import Recovery
from holdfast.host.remote_interrupt import request_interrupt
from holdfast.host.retention import Retention
from holdfast.host.schedule_runner import LOOK_POLLS, ScheduleRunner
from holdfast.host.shutdown import ENDING, shut_down
from holdfast.host.store_calls import StoreCalls, require_scope_of
from holdfast.host.turn_handle import AskOptions, AskResult, TurnHandle, start_turn
from holdfast.host.usage_reports import UsageReports
from holdfast.host.user_message import checked_history, user_message
from holdfast.models.contract import ModelTraits
from holdfast.process import BackgroundTasks, ShutdownBudget
from holdfast.process.cancellation import finish_despite_cancel
from holdfast.sessions import InboxMessage
from holdfast.sessions.contract import OWNER, Mode, SessionStart
from holdfast.sessions.leases import session_lease
from holdfast.sessions.transcripts import create_session
from holdfast.tools.open_questions import parse_approval

logger = logging.getLogger(__name__)

PLAINLY = Beginning()
ASK = AskOptions()


class SessionHost:
    """The sessions of one process. An async context manager; every method on its loop.

    Everything it has is built on entering: used earlier it raises `HostNotStarted`, and `HostClosed` later.
    """

    def __init__(self, parts: HostParts | Callable[[], Awaitable[HostParts]]) -> None:
        """`parts` may be a function that builds them when the host is entered, where they need its loop."""
        self._given = parts

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Never:
            # Called only for what is not there: every attribute, until the host is entered.
            if "_parts" not in vars(self):
                raise HostNotStarted
            raise AttributeError(f"a host has no {name!r}")

    async def __aenter__(self) -> Self:
        if "_parts" in vars(self) and not self._call.closed:
            raise InvalidInput("this host is started already")
        self._assemble(self._given if isinstance(self._given, HostParts) else await self._given())
        await self._conversations.begin()
        self._background.spawn(self._recovery.run())
        self._background.spawn(self._conversations.sweep())
        self._background.spawn(self.accounts.watch(self._conversations.opened))
        days = self._parts.options.api_days
        self._background.spawn(Retention(self._call, self._db, self.delete, days).run())
        return self

    def _assemble(self, parts: HostParts) -> None:
        self._parts, self._db = parts, parts.db
        self._background = BackgroundTasks()
        self._ending: asyncio.Task[list[str]] | None = None
        self._call = StoreCalls(parts.db, parts.pools.store)
        self._conversations = Conversations(parts, self._call, self._background)
        self._notify = self._conversations.changes.touched
        self._intake = MessageIntake(parts.db, self._call, self._conversations)
        self._recovery = Recovery(parts, self._conversations)
        self.records = Records(parts.db, self._call, self._notify)
        self.overview = Overview(parts, self._call, self._conversations, self._recovery, lambda: self.model)
        self.memory = MemoryAdmin(parts, self._call)
        self.choices = ChoiceAdmin(parts, self._call, self._conversations)
        self.usage = UsageReports(parts.db, self._call, parts.clock)
        self.files = ChangedFiles(parts, self._call, self._conversations)
        self.chats = Chats(parts.db, self._call, self._conversations.holder)
        self.accounts = Accounts(parts.db, self._call)
        self.commands = HostCommands(
            parts, self._call, self._conversations, self.records, self._recovery, self.send
        )
        if parts.observer is not None:
            self.watch(parts.observer)
        self.model, self.tools, self.source = parts.model, parts.tools, parts.options.source

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._ending is None:
            for line in await self.close():
                # In the message itself: a program that has set up no logging sees nothing else (D9).
                logger.warning("host.owed: %s", line)
        else:
            await self.close()

    # talking

    async def ask(
        self,
        session_id: str,
        text: str | Message | Checked,
        options: AskOptions = ASK,
        *,
        key: str | None = None,
    ) -> AskResult:
        """Send a message and wait for its answer; a session that is not there begins with it.

        The same `key` again sends nothing: the answer is that of the first call, also after a crash. Raises
        `TurnError` when the turn fails. A task that is cancelled here stops the turn.
        """
        options = options if key is None else replace(options, key=key)
        return await (await self.start_turn(session_id, text, options)).result()

    async def start_turn(
        self, session_id: str, text: str | Message | Checked, options: AskOptions = ASK
    ) -> TurnHandle:
        """Send a message as `ask` does, and follow its turn: the handle has the turn's events."""
        return await start_turn(self, session_id, text, options, self._background.spawn)

    async def follow(self, session_id: str, *, after: int | None = None) -> AsyncGenerator[Event, None]:
        """What happens in a conversation: where it stands (`SessionSnapshot`), then each event as it comes.

        With a number, the events after it come first, and no snapshot. A session that is not there is waited
        for. When it begins here, its events come from the first on; when it begins in another process, where
        it stands comes first.
        """
        try:
            following = await self.event_batches(session_id, after=after)
        except SessionNotFound:
            if not await self._conversations.until_begun(session_id):
                return  # the host is closing
            begun_here = session_id in self._conversations.opened
            following = await self.event_batches(session_id, after=0 if begun_here else None)
        async with aclosing(following) as batches:
            async for batch in batches:
                for numbered in batch:
                    yield numbered.event

    async def checked(
        self, message: Message, history: Sequence[Message] = ()
    ) -> tuple[Checked, list[Checked]]:
        """A message and what was said before it, for `send` or `begin`; raises why they would refuse it."""
        said = await checked_history(history, self._call)
        return await user_message(message, self.model, self._call), said

    async def send(
        self,
        session_id: str,
        text: str | Message | Checked,
        mode: Mode = "queue",
        *,
        key: str | None = None,
        create: bool = True,
        scope: str | None = None,
    ) -> Accepted:
        """Store a message, then let it wait, steer the running turn or interrupt it.

        Once this returns the message is not lost. A `key` makes the call idempotent. A session that is not
        there begins with this message or, without `create`, is refused (`SessionNotFound`). With a `scope`
        it begins there, and a session of another one is refused (`WrongScope`); without, any is taken.
        """
        message = await user_message(text, self.model, self._call)
        # A message that is stored here runs here, even if its sender leaves in the meantime.
        return await finish_despite_cancel(
            self._intake.send(session_id, message, mode, key, create=create, scope=scope)
        )

    async def begin(
        self, session_id: str, text: str | Message | Checked, how: Beginning = PLAINLY
    ) -> tuple[Accepted, AsyncGenerator[list[Numbered], None]]:
        """Begin a session with a message, both or neither.

        Returns what follows as well, from the first event on, as `event_batches` does.
        """
        message, left = await user_message(text, self.model, self._call), how.prev_session_id
        how = replace(how, history=await checked_history(how.history, self._call))
        before = await self._conversations.open(left) if left else None
        choice = await self.choices.of_folder(how.choice)
        session = SessionStart(session_id, how.source or self.source, how.title, how.scope, choice)
        accepted, conversation = await finish_despite_cancel(
            self._intake.begin(session, message, how, before)
        )
        return accepted, read_event_batches(conversation, 0)

    async def events(self, session_id: str, *, after: int | None = None) -> AsyncGenerator[Numbered, None]:
        """Read the conversation's events after a number, then live; without one, a snapshot first."""
        with reading(await self._readable(session_id)) as stream:
            while batch := await stream.next_batch(after):
                after = batch[-1].number
                for numbered in batch:
                    yield numbered

    async def _readable(self, session_id: str) -> Conversation:
        conversation = await self._conversations.readable(session_id)
        await conversation.prepare_reader()
        return conversation

    async def event_batches(
        self, session_id: str, *, after: int | None = None, from_now: bool = False
    ) -> AsyncGenerator[list[Numbered], None]:
        """The same in batches: all events that are there at once.

        A session that does not exist is refused now, not at the first read. `from_now` is for a caller that
        is about to send a message and wants what follows it.
        """
        if from_now:
            conversation = await self._conversations.opened_or_open(session_id)
            after = conversation.stream.number
        else:
            conversation = await self._readable(session_id)
        return read_event_batches(conversation, after)

    def watch(self, watcher: Callable[[Event], None]) -> None:
        """Let somebody hear every event of every conversation here; they must not wait."""
        self._conversations.changes.observe(watcher)

    def serve_schedules(self) -> None:
        """Run the schedules of the store here from now on, until the host closes: for servers."""
        look = LOOK_POLLS * self._parts.options.poll_seconds
        runner = ScheduleRunner(
            self._db, self._call, self.send, self._conversations.holder, look_seconds=look
        )
        self.watch(runner.on_event)
        self._background.spawn(runner.run())

    async def interrupt(
        self, session_id: str, text: str = "", *, key: str | None = None, turn_id: str | None = None
    ) -> bool:
        """Stop the running turn, in whichever process; a text becomes the next one. False: nothing runs.

        A `key` makes a call with a text idempotent, as with `send`. Without a text `turn_id` names the turn
        that is meant: no later one is stopped.
        """
        if text:
            return (await self.send(session_id, text, "interrupt", key=key)).interrupts is not None
        conversation = await self._conversations.open(session_id)
        if conversation.is_served:
            return conversation.interrupt(turn_id, INTERRUPTED)
        holder = self._conversations.holder
        return await self._call(request_interrupt, self._db, conversation.root_id, holder, turn_id)

    async def answer(
        self, session_id: str, ask_id: str, text: str, *, key: str | None = None, park: bool = True
    ) -> bool:
        """Answer the agent's question, or an approval with yes, no or always, in whichever process it asks.

        When that ask is closed already the text is not lost: it becomes the next message, unless it is
        only a yes or no to an approval, or `park` is False. True when the answer counted. The same `key`
        again changes nothing and answers the same.
        """
        conversation = await self._conversations.open(session_id)
        lease_name = session_lease(conversation.root_id)
        counted, parked = (None, None) if key is None else (id_for("answer", key), id_for("parked", key))
        if await self._call(answer_ask, self._db, ask_id, text, lease_name, counted):
            # Asked here, it is heard at once; a turn in another process looks at the store.
            conversation.questions.answer(ask_id, text)
            return True
        if park and parse_approval(text) is None:
            await self.send(session_id, text, key=parked)
        return False

    async def approve(self, session_id: str, ask_id: str, decision: str) -> bool:
        """Decide an approval: yes, no, or always (with a pattern). True when the decision counted."""
        return await self.answer(session_id, ask_id, decision)

    # sessions

    async def new_session(
        self,
        prev_session_id: str | None = None,
        *,
        session_id: str | None = None,
        title: str | None = None,
        key: str | None = None,
        scope: str = OWNER,
    ) -> str:
        """Begin a session. The one before it reaches a boundary: its memory is committed, in background.

        The same `key` again begins no other: the answer is where the first one goes on.
        """
        before = await self._conversations.open(prev_session_id) if prev_session_id else None
        made_id, made = await self.records.made_by("new_session", "", key)
        if made is not None:
            await self._call(require_scope_of, self._db, made, scope)
            return made
        fresh = session_id or made_id
        await self._call.run(create_session, fresh, source=self.source, title=title, scope=scope)
        self._conversations.begun(fresh, scope, before)
        return fresh

    async def undo(
        self, session_id: str, *, before: int | None = None, files: bool = False, key: str | None = None
    ) -> UndoneTurn:
        """Take back the last message and all that followed, or all from a message on, as `truncate` does.

        With `files`, what the turns did to files is taken back too, as far as nobody changed them since.
        """
        first = await self.records.undone_from(session_id, before)
        branch = await self.commands.truncate(session_id, before=first.seq, key=key)
        undone = await self.files.undo(session_id, start=first.seq) if files else []
        return UndoneTurn(branch, text_of(first.message), tuple(undone))

    async def replace_waiting(
        self, inbox_id: int, text: str | Message, mode: Mode | None = None
    ) -> InboxMessage:
        """Change a message that still waits, and how it waits; `NotWaiting` once a turn has taken it."""
        message = await user_message(text, self.model, self._call)
        if (before := await self.records.sent(inbox_id)) is not None:
            message = Checked(as_edited(message.message, before.message))
        changed = await self._call(self._db.inbox.edit, inbox_id, message, mode=mode)
        conversation = await self._conversations.open(changed.session_id)
        if mode == "interrupt" and changed.addressed_to is not None:
            conversation.interrupt(changed.addressed_to, INTERRUPTED)
        conversation.wake()
        self._notify(conversation.root_id)
        return changed

    async def delete(self, session_id: str, *, force: bool = False, forget_memory: bool = False) -> None:
        """Delete the whole conversation, for good; branches that left it stay.

        Refused while a turn of it runs (`TurnAlreadyRunning`, `SessionElsewhere`) or a message waits in it
        (`SessionBusy`). What is owed to memory is waited for, for the host's patience, and then a reason to
        refuse (`StillOwed`). `force` deletes what waits and what is owed with the rest. With `forget_memory`
        every provider forgets it too: that is stored first, and carried out even after a crash.
        """
        conversation = await self._conversations.idle(session_id)
        if forget_memory:
            waiting = len(await self._call(self._db.inbox.waiting, conversation.session_id))
            if waiting and not force:
                why = f"{waiting} messages wait in its inbox"
                raise SessionBusy(conversation.session_id, why, wanted="be deleted")
            await self.memory.forget_conversation(conversation.root_id)
        await self._conversations.delete(conversation, force=force)

    # the model

    async def models(self) -> AvailableModels:
        """The model that answers now, and those there are beside it."""
        self._call.require_open()
        where, found = await self._parts.models.details() if self._parts.models else ("", [])
        return AvailableModels(self.model, where, [each.name for each in found], found)

    async def reload_model(self) -> ModelTraits:
        """Use the model that the settings name now, as `switch_model` does."""
        self.model = await self._catalog().reload()
        return self.model

    async def switch_model(self, name: str) -> ModelTraits:
        """Use another model, in this process, from each conversation's next turn on.

        `name` is NAME or PROVIDER:NAME. A turn that runs goes on as it began. When the model can't be opened,
        the error says why, and the one before stays.
        """
        self.model = await self._catalog().switch(name)
        return self.model

    def _catalog(self) -> ModelCatalog:
        self._call.require_open()
        if self._parts.models is None:
            raise InvalidInput("this host has one model; it can't be changed")
        return self._parts.models

    async def warm_up(self) -> None:
        """Load a model that runs on this machine, so that the first answer does not wait for it."""
        await self._parts.warm_up()

    async def set_tool_profile(self, session_id: str, name: str) -> ToolProfile:
        """Choose a tool profile for a conversation, from its next turn on and for good; "": by the model.

        Raises `InvalidInput` when there is none of this name.
        """
        name = self._parts.tool_profiles.checked(name)
        await self.records.choose_tool_profile(session_id, name)
        return await self.overview.tool_profile(session_id)

    def hand_over(self) -> None:
        """Take nothing over any more, and hand over or stop the turns that run; `close` waits for that."""
        self._background.cancel()
        self._background.spawn(self._recovery.leave())
        for each in list(self._conversations.opened.values()):
            self._background.spawn(each.close(ENDING))

    async def close(self, budget: ShutdownBudget | None = None) -> list[str]:
        """Stop within one budget; returns what is still owed, in plain words. Idempotent."""
        if self._ending is None:
            self._background.cancel()
            spent = budget or ShutdownBudget(self._parts.options.shutdown_seconds, self._parts.clock)
            self._call.closed = True
            self._ending = asyncio.create_task(self._shut_down(spent))
        # A caller that is cancelled stops waiting; the shutdown goes on.
        return await asyncio.shield(self._ending)

    async def _shut_down(self, budget: ShutdownBudget) -> list[str]:
        self._conversations.wake_waiting()
        await self._conversations.changes.close()
        await self._recovery.leave()
        return await shut_down(self._parts, list(self._conversations.opened.values()), budget)
