"""`Conversation`: one conversation's runner: at most one turn at a time, under the conversation's lease.

What it may do and when is the table `RUNNER` in `core/states.py`; read that first. Its task lives while the
runner is not idle: a message waits, a command was given, or another process runs the conversation and a
reader here follows it. Messages are taken from the inbox in order, so whatever enters there (a person's word,
a background process's end) can't run beside a turn.
"""

import asyncio
import logging
import weakref
from contextlib import suppress
from functools import partial

from holdfast.agent import SessionAgent
from holdfast.core.error_text import error_words
from holdfast.core.errors import (
    HoldfastError,
    HostClosed,
    LeaseLost,
    OutcomeUnknown,
    Retryable,
    SessionElsewhere,
    SessionNotFound,
    StoreClosed,
    StoreFault,
)
from holdfast.core.events import INTERRUPTED, SessionTrouble
from holdfast.core.states import RUNNER
from holdfast.host.agent_cache import AgentCache
from holdfast.host.agent_work import AgentWork
from holdfast.host.ask_records import AskRecord
from holdfast.host.contract import HostParts
from holdfast.host.event_stream import EventStream
from holdfast.host.remote_turns import RemoteTurns
from holdfast.host.runner_store import Held, RunnerStore
from holdfast.host.session_commands import SessionCommand
from holdfast.host.status_feed import StatusFeed
from holdfast.host.store_watcher import StoreWatcher, WatchedTurn
from holdfast.host.turn_publisher import TurnPublisher
from holdfast.process import off_loop
from holdfast.sessions.contract import OWNER, ConversationChoice, ConversationState, InboxMessage
from holdfast.sessions.held_lease import HeldLease
from holdfast.tools.open_questions import OpenQuestions

logger = logging.getLogger(__name__)

TRANSIENT = (Retryable, OutcomeUnknown, StoreFault)
"""Troubles after which the runner tries again."""
LONGEST_PAUSE = 5.0
IDLE_REST = 15.0
"""The longest pause between two looks at an idle conversation, even if nothing wakes the runner."""
BUSY_REST = 1.0
"""The same while another process runs it; shorter, since a paused process leaves no trace in the store."""
REVIEW_SECONDS = 0.5
"""How long a review that is cut off at the end may take to stop."""
HEAD_START = 1.0
"""How long a message accepted by another process is left to it before this one runs it, in seconds."""
ENDING = ("closing", *RUNNER.final)
CALLED = ("claiming", "serving", "checking", "called_again", "waiting", "retrying")
"""States in which something is to be done here."""


class Conversation:
    """One conversation as this process knows it."""

    def __init__(
        self,
        root_id: str,
        parts: HostParts,
        agents: AgentCache,
        holder: str,
        changes: StatusFeed,
        watcher: StoreWatcher,
    ) -> None:
        self.root_id = root_id
        self.scope = OWNER
        """Whose conversation it is; set when it is opened. An agent of another scope can't run it."""
        self.choice: ConversationChoice | None = None
        """What was chosen for it; None while nobody has looked."""
        self.state = RUNNER.start
        """What the runner does: a state of the table `RUNNER`."""
        self._asks = AskRecord(parts.db, parts.pools.store)
        self.questions = OpenQuestions(parts.ask_seconds, self._asks)
        # Numbers go on from the time, so that none of an earlier life of the stream fits this one.
        self.stream = EventStream(
            root_id,
            parts.options.replay,
            first=int(parts.clock.now() * 1_000_000),
            clock=parts.clock,
            on_event=partial(changes.on_event, root_id),
        )
        self._parts = parts
        self._agents = agents
        self._watcher = watcher
        self._remote_turns = RemoteTurns(parts, self.stream)
        # By a weak reference: a conversation that is let go is gone at once, and with it all that was said.
        here = weakref.proxy(self)
        running = WatchedTurn(
            lambda: here._running.running_turn if here._running else None,  # noqa: SLF001 - itself
            lambda turn_id: here.interrupt(turn_id, INTERRUPTED),
            self.questions,
        )
        self.publisher = TurnPublisher(
            parts, self.stream, self._asks, watcher, running, partial(changes.touched, root_id)
        )
        self._store = RunnerStore(root_id, parts, holder, self._remote_turns, self.publisher)
        self._work = AgentWork(root_id, parts, self.publisher, self._asks)
        self._commands = self._work.commands
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._running: SessionAgent | None = None
        self._begun: Held | None = None  # the lease with which the conversation began here
        self._last_token = -1  # the next lease has the next token when nobody held it in between
        self._last_parked = 0  # messages up to this inbox id wait until a person speaks
        self.last_accepted = 0
        """The inbox id of the last message that was accepted here."""
        self._first_seen = (0, 0.0)  # a message accepted elsewhere, and when it was first seen here
        self.used = parts.clock.monotonic()

    @property
    def session_id(self) -> str:
        """The session in which the conversation goes on, as far as this process knows."""
        return self.stream.session_id

    @property
    def running_turn(self) -> str | None:
        turn_id = self._running.running_turn if self._running else None
        return turn_id if turn_id != self.publisher.last_ended else None

    @property
    def trouble(self) -> str:
        """What keeps the conversation from going on here: the store can't be written, or worse."""
        return (self._running.store_trouble if self._running else "") or self.stream.trouble

    @property
    def is_served(self) -> bool:
        """Whether this process holds the conversation now."""
        return self._running is not None

    @property
    def is_wanted(self) -> bool:
        """Whether this process holds it, or is about to: something is to be done here."""
        return self.is_served or self.state in CALLED

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted: one of the same name is another one."""
        return self.state == "deleted"

    @property
    def is_unused(self) -> bool:
        """Whether nothing runs, nothing is asked and nobody reads here."""
        return self._task is None and not self._commands and not self.stream.readers

    async def prepare_reader(self) -> None:
        """Somebody is about to read here. What other processes did while nobody did is in the transcript."""
        remote = self._remote_turns
        if self._is_unread():
            beginning, state = await off_loop(self._parts.pools.store, remote.beginning, self.root_id)
            if not self._is_unread() or remote.is_at(state):
                return
            if remote.is_following:
                self.stream.restart()
                remote.skip(*beginning)
            elif state.open_turn is None:
                remote.skip(*beginning)  # an open turn may be cut off: the first look finds out

    def _is_unread(self) -> bool:
        """Whether nobody looks at what other processes do here."""
        return not self.is_wanted and not self.stream.readers

    def wake(self) -> None:
        """There may be something to see: look, unless something is to be done anyway."""
        self._signal("look" if self.state == "idle" else None)

    def park(self, inbox_id: int) -> None:
        """Messages up to this one were left behind: they wait until a person speaks here."""
        self._last_parked = inbox_id

    def unpark(self) -> None:
        """A person has decided about what was left here: what waits runs as well."""
        self._last_parked = 0

    def run_waiting(self) -> None:
        """A person has spoken here: everything that waits may run, in order."""
        self.unpark()
        self._signal("call")

    def recover(self) -> None:
        """A dead process left a turn or messages here: go on with them, unless another process does."""
        self._signal("call")

    def held(self, held: Held) -> None:
        """The lease was taken when the conversation began: the runner goes on from there."""
        self._begun = held

    async def run_command(self, command: SessionCommand, *, only_idle: bool = False) -> None:
        """Run this before the next turn, under the lease; returns when it is done.

        With `only_idle` it is refused (`TurnAlreadyRunning`) when a turn begins before it. Raises
        `SessionElsewhere` when another process holds the conversation longer than this one's patience.
        """
        if self.state in ENDING:
            raise HostClosed
        answer = self._commands.add(command, only_idle=only_idle)
        self._signal("call")
        await answer

    def interrupt(self, turn_id: str | None, reason: str) -> bool:
        """Stop the turn if it is the one that runs here, or with None what runs; False when it doesn't."""
        running = self.running_turn
        if self._running is None or running is None:
            return turn_id is None and self._commands.interrupt()
        if turn_id not in (None, running):
            return False
        self._running.interrupt(reason=reason)
        return True

    def retire(self) -> None:
        """The conversation is deleted: its lease is gone with it, and nothing more comes."""
        self._signal("delete")
        self._commands.refuse(SessionNotFound(self.root_id))
        self.stream.close()

    async def close(self, reason: str) -> None:
        """Begin nothing more, hand over what runs or cut it off, and wait for its record."""
        self._signal("close")
        if self._running is None or not await self.publisher.hand_over(self._running):
            self.interrupt(None, reason)
        try:
            while self._task is not None:
                await asyncio.wait([self._task])
            if self._begun is not None:
                self._begun = None
                await self._store.release()
        finally:
            if self.state == "closing":
                self.state = RUNNER.after(self.state, "stop")
            self._commands.refuse(HostClosed())
            self.stream.close()
        await self.publisher.close(REVIEW_SECONDS)

    # the runner

    def _signal(self, event: str | None) -> None:
        """Somebody wants something of the runner; one that has ended takes nothing more."""
        self.used = self._parts.clock.monotonic()
        if event is not None and self.state not in RUNNER.final:
            self.state = RUNNER.after(self.state, event)
        self._woken.set()
        if self._task is None and self.state in (*CALLED, "following"):
            self._task = asyncio.create_task(self._run(), name=f"conversation {self.root_id}")
            self._task.add_done_callback(self._ended)

    def _advance(self, event: str) -> None:
        """The runner took a step; when it is ending meanwhile, the step changes nothing."""
        if self.state not in ENDING:
            self.state = RUNNER.after(self.state, event)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        self.used = self._parts.clock.monotonic()
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            logger.error("host.runner_failed", exc_info=failure, extra={"session": self.root_id})
            self._trouble(failure)
            self._advance("stop")
        elif self._woken.is_set() and self.state not in ENDING:
            self.wake()  # something came between the last step and the end

    def _trouble(self, problem: BaseException, *, patience: float = 0.0) -> None:
        self.stream.publish(SessionTrouble(session_id=self.session_id, error=error_words(problem)))
        self._commands.refuse(problem, older_than=patience)

    async def _run(self) -> None:
        """Take the step of each state until the runner is idle or ending."""
        steps = {
            "claiming": self._claim,
            "resting": self._rest_a_moment,
            "waiting": self._wait,
            "following": self._follow,
        }
        pause = shortest = self._parts.options.poll_seconds
        while (step := steps.get(self.state)) is not None:
            self._woken.clear()
            try:
                await step()
                self.stream.trouble = ""
                pause = shortest
            except LeaseLost:
                self._advance("lose")  # another process goes on
                await self._rest(shortest)
            except TRANSIENT as trouble:
                self._trouble(trouble, patience=self._parts.options.patience_seconds)
                pause = await self._try_again(pause)
            except (StoreClosed, SessionNotFound) as gone:
                # Closed here or deleted by another process: nothing here is left to be closed or run.
                self._stop(gone)
            except HoldfastError as trouble:
                if not self.publisher.unclosed:
                    self._stop(trouble)
                    continue
                # A turn here is not known to be closed, and its readers wait for the end.
                self._trouble(trouble)
                pause = await self._try_again(pause)

    def _stop(self, why: HoldfastError) -> None:
        if isinstance(why, StoreClosed):
            self._commands.refuse(why)
        else:
            self._trouble(why)
        self.publisher.unclosed = ""
        self._advance("stop")

    async def _try_again(self, pause: float) -> float:
        """Rest after a failure; returns the next pause."""
        self._advance("fail")
        await self._rest(pause)
        if self.state == "retrying":
            self._advance("try again")
        return min(2 * pause, LONGEST_PAUSE)

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()

    # while another process may run the conversation

    async def _claim(self) -> None:
        """Take the lease and serve, unless another process holds the conversation."""
        begun, self._begun = self._begun, None
        lease, look = begun or await self._store.claim()
        if lease is None:
            self._advance("find it held")
        else:
            self._advance("hold")
            await self._serve(lease, look)

    async def _rest_a_moment(self) -> None:
        """The lease was just let go, and nobody else has done anything yet."""
        if self.stream.readers:
            await self._rest(self._parts.options.poll_seconds)
        if self.state == "resting":
            self._advance("follow" if self.stream.readers else "leave")

    async def _wait(self) -> None:
        """Another process holds the conversation: see what it does, and whether there is still work here."""
        with self._watcher.watch_conversation(self.root_id, self._woken):
            message = await self._look_elsewhere()
            if self.state != "waiting":
                return  # somebody called
            if message is None and not self._commands and not self.publisher.unclosed:
                self._advance("give up")
                return
            await self._rest(BUSY_REST if message is not None else self._parts.options.poll_seconds)
        if self.state == "waiting":
            self._advance("try again")

    async def _follow(self) -> None:
        """See what other processes do here, as long as somebody reads or a message waits."""
        with self._watcher.watch_conversation(self.root_id, self._woken):
            message = await self._look_elsewhere()
            free = not self._remote_turns.elsewhere
            if self.state != "following":
                return  # somebody called
            if message is None and not self.stream.readers:
                self._advance("leave")
            elif message is not None and free and self._may_take(message):
                self._advance("take")
            elif message is not None and free:
                await self._rest(self._parts.options.poll_seconds)
            else:
                await self._rest(IDLE_REST if free else BUSY_REST)

    def _may_take(self, message: InboxMessage) -> bool:
        """The process that accepted a message runs it; one that only reads here gives it a head start."""
        now = self._parts.clock.monotonic()
        if self._first_seen[0] != message.id:
            self._first_seen = (message.id, now)
        return now - self._first_seen[1] >= HEAD_START

    async def _look_elsewhere(self) -> InboxMessage | None:
        """See and show what other processes do here; returns the message whose turn it is."""
        look, holder, progress = await self._store.around(follow=bool(self.stream.readers or self._commands))
        message = self._update_from(look)
        if progress is not None:
            remote = self._remote_turns
            remote.show_elsewhere(elsewhere=remote.elsewhere or holder is not None)
            remote.show(progress)
            remote.show_elsewhere(elsewhere=holder is not None)
        self._commands.refuse(
            SessionElsewhere(self.session_id),
            older_than=self._parts.options.patience_seconds,
        )
        return message

    # while this process holds the conversation

    async def _serve(self, lease: HeldLease, look: ConversationState | None) -> None:
        """Run what waits, then let the lease go."""
        end: ConversationState | None = None
        try:
            if self._remote_turns.is_following and lease.token != self._last_token + 1:
                # Readers see what another process stored before they see what this one does.
                await self._remote_turns.catch_up(self.root_id)
            self._remote_turns.show_elsewhere(elsewhere=False)
            self._asks.lease = lease
            await self._prepare()
            end = await self._until_idle(lease, look)
        finally:
            self._last_token = lease.token
            agent, self._running, self._asks.lease = self._running, None, None
            self._agents.give_back(self.root_id, agent)
            if self.is_deleted:
                await self._store.abandon(lease)
            elif end is not None:
                self._remote_turns.skip(end.live, end.messages)
            else:
                await self._let_go()

    async def _let_go(self) -> None:
        """Release the lease; what another process stored after it was lost is still to be shown."""
        found = await self._store.release()
        if found.released:
            self._remote_turns.skip(found.state.live, found.state.messages)
        else:
            own = self.publisher.unclosed or self.publisher.last_ended
            await off_loop(self._parts.pools.store, self._remote_turns.skip_turn, self.root_id, own)

    async def _agent(self, lease: HeldLease) -> SessionAgent:
        """The agent that works here now; another one when what it may do for this scope has changed."""
        scope = await self._parts.agent_scope(self.scope, self.session_id, self.choice)
        agent = self._agents.take(
            self.root_id, lambda: self._parts.make_agent(self.session_id, self.questions, scope), scope
        )
        if self._running is not agent:
            agent.lease = lease
            self._running = agent
            self._parts.lifecycle.register_agent(agent.session_id, agent)
        return agent

    async def read_choice(self) -> None:
        """What a person chose for this conversation, in whichever process."""
        self.choice = await off_loop(self._parts.pools.store, self._parts.db.choices.get, self.root_id)

    async def _prepare(self) -> None:
        """Know what was chosen, and open the model that was."""
        if self.choice is None or self._last_token >= 0:
            await self.read_choice()
        if self.choice is not None and self.choice.model and self._parts.models is not None:
            await self._parts.models.prepare(self.choice.model)

    async def _until_idle(self, lease: HeldLease, look: ConversationState | None) -> ConversationState | None:
        """Work while there is something to do; returns where the conversation was left, if it was."""
        agent = await self._agent(lease)
        while self.state not in ENDING:
            if await self._work.run_before_messages(agent):
                look = None  # it may stand otherwise now
            elif look is None or self._is_idle(look):
                look, released = await self._check()
                if released:
                    return look
            else:
                self._update_from(look)
                agent = await self._agent(lease)
                if self.state not in ENDING:
                    await self._work.run_turn(agent, look)
                look = None
        return None

    async def _check(self) -> tuple[ConversationState, bool]:
        """See what waits; when nothing does, the lease is let go in the same step."""
        self._advance("check")
        found = await self._store.release_if_idle(self._last_parked)
        look = found.state
        self._update_from(look)
        released = found.released or self._is_idle(look)
        self._advance("release" if released else "find work")
        return look, released

    def _is_idle(self, look: ConversationState) -> bool:
        """Whether nothing is to be done: no message's turn, and no turn to take over."""
        return look.is_idle(parked=self._last_parked, recovers=self._parts.options.recovers)

    def _update_from(self, look: ConversationState) -> InboxMessage | None:
        """Note what a look has found; returns the message whose turn it is."""
        self.stream.session_id = look.live
        self.stream.waiting = len(look.waiting)
        return look.first(self._last_parked)
