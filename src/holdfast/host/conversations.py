"""`Conversations`: the conversations that this process has opened, and the agents it keeps for them."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from weakref import WeakValueDictionary

from holdfast.agent import SessionAgent
from holdfast.core.errors import (
    CommandInterrupted,
    HoldfastError,
    SessionElsewhere,
    SessionExists,
    TurnAlreadyRunning,
    WrongScope,
)
from holdfast.host.agent_cache import AgentCache
from holdfast.host.contract import ConversationStatus, HostParts
from holdfast.host.conversation import Conversation
from holdfast.host.conversation_status import ObservingHost, asks_elsewhere, deleted_status, status_of
from holdfast.host.holders import host_lease, living_holder
from holdfast.host.status_feed import StatusFeed
from holdfast.host.store_calls import StoreCalls
from holdfast.host.store_watcher import StoreWatcher
from holdfast.process import BackgroundTasks, holder_name, off_loop
from holdfast.process.cancellation import finish_despite_cancel
from holdfast.sessions import StoredStatus
from holdfast.sessions.contract import OWNER

logger = logging.getLogger(__name__)


class Conversations:
    """Opened by the id of any of their sessions, known by their roots."""

    def __init__(self, parts: HostParts, call: StoreCalls, background: BackgroundTasks) -> None:
        self._parts = parts
        self._db = parts.db
        self._call = call
        self._background = background
        # One that is still in use (it runs, or a message is on its way) is found here, also when not kept.
        self._opened: WeakValueDictionary[str, Conversation] = WeakValueDictionary()
        self._kept: dict[str, Conversation] = {}
        self._awaited: set[asyncio.Event] = set()  # one for each caller that waits for a session to begin
        self._crowded_at = parts.options.conversations
        self.holder = holder_name()
        self.agents = AgentCache(parts.lifecycle, parts.pools, parts.clock, parts.options)
        self._watcher = StoreWatcher(parts.db, parts.pools.store, parts.options.poll_seconds)
        self.changes = StatusFeed(self.statuses, self._busy, self._watcher)

    async def begin(self) -> None:
        """Let other processes know, from now on, that this one lives."""
        try:
            await self._call(self._db.keeper.acquire, host_lease(self.holder), self.holder)
        except HoldfastError:
            # A store in trouble keeps no host from starting: what it does is refused by name.
            logger.warning("host.not_announced", exc_info=True)

    @property
    def opened(self) -> Mapping[str, Conversation]:
        """By their roots, to be looked at."""
        return MappingProxyType(self._opened)

    async def open(self, session_id: str, *, create: bool = False, scope: str | None = None) -> Conversation:
        """The conversation a session belongs to; with a scope, `WrongScope` when it is another's."""
        root_id, live, last, found_scope = await self._call(self._place, session_id, create, scope or OWNER)
        self._call.require_open()
        if scope is not None and found_scope != scope:
            raise WrongScope(session_id)
        if (found := self._find(root_id)) is not None:
            return found
        opened = self._add(root_id, live, found_scope)
        if not self._parts.options.recovers:
            # Messages that waited before anybody spoke here were left behind by an earlier process.
            opened.park(last)
        return opened

    async def opened_or_open(
        self, session_id: str, *, create: bool = False, scope: str | None = None
    ) -> Conversation:
        """The same, but one that is open here is not looked up: a write to it fails if it is gone."""
        found = self._find(session_id)
        if found is not None and not self._call.closed and scope in (None, found.scope):
            return found
        return await self.open(session_id, create=create, scope=scope)

    async def readable(self, session_id: str) -> Conversation:
        """The same, and not looked up either while it runs here or is about to: then it is there."""
        here = self._opened.get(session_id)
        return here if here is not None and here.is_wanted else await self.open(session_id)

    async def until_begun(self, session_id: str) -> bool:
        """Wait until there is a session of this name; False when the host closes first."""
        changed = asyncio.Event()
        self._awaited.add(changed)
        try:
            with self._watcher.watch_all(lambda roots: changed.set() if session_id in roots else None):
                while not self._call.closed:
                    changed.clear()
                    if await self._call(self._db.get_session, session_id) is not None:
                        return True
                    await changed.wait()
        finally:
            self._awaited.discard(changed)
        return False

    async def keep_grants(self, left: Conversation, goes_on: str, before: int) -> None:
        """Allow in a continuation what was allowed always in the calls before a message, which it keeps."""
        if left.questions.granted():
            stored = await self._call(self._db.sessions.read, left.session_id)
            calls = [
                call for each in stored if each.seq < before for call in each.message.get("tool_calls", ())
            ]
            kept = {str(call.get("id")) for call in calls}
            (await self.open(goes_on)).questions.keep_grants(left.questions, kept)

    def wake_waiting(self) -> None:
        """Let those that wait for a session look again."""
        for changed in self._awaited:
            changed.set()

    def begun(self, session_id: str, scope: str, left: Conversation | None = None) -> Conversation:
        """A session has just been made here: it is its own conversation. One `left` for it is committed."""
        self._call.require_open()
        begun = self._find(session_id) or self._add(session_id, session_id, scope)
        self.changes.touched(session_id)
        if left is not None:
            self.commit_later(left)
        return begun

    def _find(self, root_id: str) -> Conversation | None:
        """The conversation, if it is open here; it is kept from now on."""
        found = self._opened.get(root_id)
        if found is not None:
            self._kept[root_id] = found
        return found

    def _add(self, root_id: str, live: str, scope: str) -> Conversation:
        opened = self._opened[root_id] = self._kept[root_id] = Conversation(
            root_id, self._parts, self.agents, self.holder, self.changes, self._watcher
        )
        opened.scope = scope
        opened.stream.session_id = live
        self.wake_waiting()
        if len(self._kept) >= self._crowded_at:
            self._close_least_used()
        return opened

    def forget(self, conversation: Conversation, *sessions: str) -> None:
        """It is deleted, here or by another process: nobody finds it here any more.

        One of the same name that has begun since is another one, and stays.
        """
        root_id = conversation.root_id
        conversation.retire()
        if self._opened.get(root_id) is conversation:
            self._opened.pop(root_id)
            self._kept.pop(root_id, None)
            self.agents.drop(root_id)
            self._parts.lifecycle.forget(root_id, conversation.session_id, *sessions)

    def _place(self, session_id: str, create: bool, scope: str) -> tuple[str, str, int, str]:
        """Its conversation's first session, the one it goes on in, the last message there, and its scope."""
        if create and self._db.get_session(session_id) is None:
            with suppress(SessionExists):
                self._db.create_session(session_id, source=self._parts.options.source, scope=scope)
        lineage = self._db.sessions.conversation(session_id)
        live = lineage[-1]
        waiting = self._db.inbox.waiting(live.id)
        return lineage[0].id, live.id, waiting[-1].id if waiting else 0, live.scope

    async def idle(self, session_id: str) -> Conversation:
        """The conversation, while no turn of it runs anywhere."""
        conversation = await self.open(session_id)
        holder = await self._call(living_holder, self._db, conversation.root_id)
        # Last: while the store was asked, a turn may have begun here.
        if conversation.running_turn is not None:
            raise TurnAlreadyRunning(conversation.session_id, conversation.running_turn)
        if holder not in (None, self.holder):
            raise SessionElsewhere(conversation.session_id)
        return conversation

    async def statuses(self, roots: Collection[str]) -> list[ConversationStatus]:
        """How conversations stand, named by their roots, in one read; one that is not there is deleted."""
        stored, asked = await self._call(self._living, list(roots))
        found = {each.root_id: each for each in stored}
        here = ObservingHost(self.holder, self._parts.options.recovers)
        return [
            status_of(found[root], self._opened.get(root), here, asked.get(root, 0))
            if root in found
            else deleted_status(root)
            for root in roots
        ]

    def _living(self, roots: list[str]) -> tuple[list[StoredStatus], dict[str, int]]:
        """As the store has them, and what others ask there; a holder that is provably gone holds nothing."""
        stored = [
            each
            if each.holder in (None, self.holder)
            else replace(each, holder=living_holder(self._db, each.root_id))
            for each in self._db.statuses.of(roots)
        ]
        return stored, asks_elsewhere(self._db, stored, self.holder)

    async def _busy(self) -> Collection[str]:
        return (await self._call(self._db.activity.read)).busy

    async def agent_of(self, conversation: Conversation) -> SessionAgent:
        """The agent that is warm, or a fresh one that nobody keeps."""
        return self.agents.get(conversation.root_id) or await self._parts.agent_for(
            conversation.session_id, conversation.questions, conversation.scope, conversation.choice
        )

    async def commit(self, conversation: Conversation) -> None:
        """A boundary: what was said in the whole conversation is committed to memory, on nobody's turn."""
        async with self.agents.boundaries:
            agent = await self.agent_of(conversation)
            for session_id in await self._call(self._db.sessions.lineage, conversation.root_id):
                await off_loop(
                    self._parts.pools.work,
                    self._parts.lifecycle.commit_session_memory,
                    session_id,
                    agent,
                    wait=True,
                )

    def commit_later(self, conversation: Conversation) -> None:
        """The same, in the background."""
        self._background.spawn(self.commit(conversation))

    def part_with(self, conversation: Conversation) -> None:
        """Commit an ended conversation's memory, and let its agent go; in the background."""

        async def part() -> None:
            await self.commit(conversation)
            await self.agents.evict(conversation.root_id)

        self._background.spawn(part())

    async def delete(self, conversation: Conversation, *, force: bool) -> None:
        """Delete it under its lease, and forget it here; raises what the store refuses.

        What is deleted is reported as deleted, whatever else goes wrong.
        """
        if not force:
            await self._delivered(conversation.root_id)
        sessions: list[str] = []

        async def remove() -> None:
            deleted = await self._call(
                self._db.delete_session, conversation.root_id, holder=self.holder, force=force
            )
            sessions.extend(deleted.sessions)
            self.forget(conversation, *sessions)

        try:
            await conversation.run_command(lambda _: finish_despite_cancel(remove()), only_idle=True)
        except CommandInterrupted:
            if not sessions:
                raise  # stopped before it began
        self.changes.touched(conversation.root_id)
        try:
            # First: the next conversation of this name uses the same folders.
            for each in sessions:
                await off_loop(self._parts.pools.work, self._parts.forget_outputs, each)
        except HoldfastError:
            logger.warning("host.not_tidied_up", extra={"session": conversation.root_id}, exc_info=True)
        try:
            await self._call_next(conversation)
        except HoldfastError:
            logger.warning("host.next_not_called", extra={"session": conversation.root_id}, exc_info=True)

    async def _call_next(self, deleted: Conversation) -> None:
        """Run what was accepted here for a deleted conversation and waits in the next one of its name.

        Another process may have begun that one before this process knew of the deletion.
        """
        last = deleted.last_accepted
        if last and await self._call(self._db.inbox.get, last) is not None:
            (await self.open(deleted.root_id)).run_waiting()

    async def _delivered(self, root_id: str) -> None:
        """Give what is owed to memory a moment to be delivered."""
        options = self._parts.options
        with suppress(TimeoutError):
            async with asyncio.timeout(options.patience_seconds):
                while True:
                    if not await self._call(self._db.outbox.open_in, root_id):
                        return
                    await asyncio.sleep(options.poll_seconds)

    async def sweep(self) -> None:
        """Let go of what is long unused, now and then."""
        options = self._parts.options
        while True:
            await self.agents.until_due()
            try:
                await self.agents.sweep()
                if self._parts.models is not None:
                    await self._parts.models.tidy()
            except Exception:
                logger.exception("host.sweep_failed")
            self._close_unused(options.idle_seconds)
            self._close_least_used()

    def _close_unused(self, seconds: float) -> None:
        """Let go of conversations that nobody has used for so long."""
        unused_since = self._parts.clock.monotonic() - seconds
        for root_id, each in self._unused():
            if each.used <= unused_since:
                del self._kept[root_id]

    def _close_least_used(self) -> None:
        """Let go of those that are too many. A reader that comes back to one gets a snapshot of it."""
        limit = self._parts.options.conversations
        unused = sorted(self._unused(), key=lambda one: one[1].used)
        for root_id, _ in unused[: max(0, len(unused) - limit)]:
            del self._kept[root_id]
        # The next look at all of them is worth it when there are a quarter more again.
        self._crowded_at = len(self._kept) + max(16, limit // 4)

    def _unused(self) -> list[tuple[str, Conversation]]:
        """The conversations that nobody uses, and whose agent is not kept warm."""
        return [
            (root_id, each)
            for root_id, each in self._kept.items()
            if each.is_unused and root_id not in self.agents
        ]
