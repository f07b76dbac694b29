"""`SessionFeed`: shows an editor what happens in one conversation, whoever began it.

It is the only one that shows the events of a session, so nothing comes twice: a prompt waits for its end
(`until_shown`). A turn that a terminal or the page began is shown too, with its message.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing

from acp import schema, update_user_message_text
from acp.interfaces import Client

from holdfast.acp.open_editor import OpenEditor
from holdfast.acp.permissions import Permissions
from holdfast.acp.project_hosts import Project
from holdfast.acp.replay import Replay
from holdfast.acp.turn_updates import TurnUpdates, Update, note
from holdfast.agent import Unfinished
from holdfast.core import events as ev
from holdfast.core.errors import HoldfastError
from holdfast.core.messages import storable
from holdfast.process import BackgroundTasks
from holdfast.sessions.contract import StoredMessage

logger = logging.getLogger(__name__)

TRIES = 50
"""How often a conversation is read until nothing happens meanwhile."""
LOOKS, BETWEEN_LOOKS = 10, 0.1
CUT_OFF = "This turn was cut off by a crash. /continue goes on with it, /retry asks again, /drop ends it."
LEFT_OPEN = " These tools left no result and may have taken effect: {}."


class SessionFeed:
    """One session of an editor. `id` is its name there, `live_id` the conversation that it shows."""

    def __init__(
        self,
        client: Client,
        session_id: str,
        project: Project,
        offers: schema.ClientCapabilities | None = None,
    ) -> None:
        """`offers` says what tools may use of the editor."""
        self.id = self.live_id = session_id
        self.project = project
        self.editor = OpenEditor(client, session_id, offers)
        self.sending = asyncio.Lock()
        """Held while a message of this editor is stored, so that the feed knows it when its turn begins."""
        self.sent: set[int] = set()
        self._client = client
        self._permissions = Permissions(client, session_id, project.host)
        self._turn_id = ""
        self._updates = TurnUpdates(project.folder, self.editor.terminals)
        self._ended: set[str] = set()
        self._replay = Replay(project.folder)
        self._told: set[str] = set()
        """The turns of which was said that they were cut off."""
        self._is_over = False
        self._changed = asyncio.Condition()
        self._tasks = BackgroundTasks()
        self._reader: asyncio.Task[None] | None = None

    # opening and closing

    def start(self, after: int | None = None) -> None:
        """Show what happens from now on, or after a number."""
        self._is_over = False
        self._reader = asyncio.create_task(self._read(after), name=f"acp feed {self.id}")

    async def replay(self) -> None:
        """Show what is on record, then what happens from there on."""
        await self.project.host.records.session(self.id)  # one that is not there is refused
        await self._use_editor()
        snapshot, stored = await self._as_of_one_moment()
        replay = Replay(self.project.folder)
        for update in replay.of(stored):
            await self.show(update)
        self._turn_id = snapshot.turn_id
        for update in self._updates.of(snapshot):
            await self.show(update)
        self._replay = replay
        await self._show_cut_off(await self._cut_off())
        self.start(snapshot.number)

    async def go_on_in(self, session_id: str) -> None:
        """Show another conversation from now on, such as the branch that an undo leaves."""
        await self.close()
        self.live_id = session_id
        await self._use_editor()
        self.start()

    async def _use_editor(self) -> None:
        """From now on the tools of the conversation work through this editor."""
        first, *_ = await self.project.host.records.lineage(self.live_id)
        self.project.editors[first.id] = self.editor

    async def close(self) -> None:
        self.project.forget(self.editor)
        self._permissions.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait([self._reader])

    async def _as_of_one_moment(self) -> tuple[ev.SessionSnapshot, list[StoredMessage]]:
        """Where the conversation stands, and its messages up to there."""
        snapshot, stored = await self._snapshot(), await self._stored()
        for _ in range(TRIES):
            now = await self._snapshot()
            if now.number == snapshot.number:
                break
            snapshot, stored = now, await self._stored()
        return snapshot, stored

    async def _snapshot(self) -> ev.SessionSnapshot:
        async with aclosing(self.project.host.follow(self.live_id)) as events:
            async for event in events:
                if isinstance(event, ev.SessionSnapshot):
                    return event
        raise HoldfastError("Holdfast is stopping; the conversation is kept")

    async def _stored(self) -> list[StoredMessage]:
        records = self.project.host.records
        sessions = await records.lineage(self.live_id)
        return [each for part in sessions for each in await records.messages(part.id, exact=True)]

    async def _cut_off(self) -> Unfinished | None:
        """The turn that a crash has left open. A host that starts may hold its conversation for a moment."""
        host = self.project.host
        for _ in range(LOOKS):
            left = await host.commands.unfinished(self.live_id)
            if left is not None or (await host.overview.session_status(self.live_id)).turn_id is None:
                return left
            await asyncio.sleep(BETWEEN_LOOKS)
        return None

    async def _show_cut_off(self, left: Unfinished | None) -> None:
        """Say what a crash has left; nothing is run again unasked."""
        host = self.project.host
        if left is not None and left.turn_id not in self._told:
            self._told.add(left.turn_id)
            if left.turn_id != self._turn_id:
                self._turn_id, self._updates = left.turn_id, self._new_updates()
            for update in [*self._updates.missed(left.partial), *self._replay.left_open()]:
                await self.show(update)
            calls = LEFT_OPEN.format(", ".join(left.open_calls)) if left.open_calls else ""
            await self.show(note(CUT_OFF + calls))
        waiting = await host.records.waiting(self.live_id)
        if waiting and await host.records.holder(self.live_id) is None:
            await self.show(note(f"{len(waiting)} of your messages wait here; /continue runs them."))

    # showing

    def _new_updates(self) -> TurnUpdates:
        return TurnUpdates(self.project.folder, self.editor.terminals)

    async def show(self, update: Update) -> None:
        await self._client.session_update(session_id=self.id, update=update)

    def problems(self) -> list[Update]:
        """What the host left out or warns of, such as a home folder as workspace."""
        return [note(each) for each in self.project.host.overview.problems]

    def later(self, *updates: Update) -> None:
        """Show something soon, in the background."""
        self._tasks.spawn(self._show_or_log(updates))

    async def _show_or_log(self, updates: Sequence[Update]) -> None:
        try:
            for update in updates:
                await self.show(update)
        except ConnectionError:
            logger.info("acp.editor_gone", extra={"session": self.id})

    async def until_shown(self, end: ev.TurnEnd) -> None:
        """Wait until the whole turn is shown."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_over or end.turn_id in self._ended)

    async def _read(self, after: int | None) -> None:
        try:
            async with aclosing(self.project.host.follow(self.live_id, after=after)) as events:
                async for event in events:
                    await self._show_event(event)
        except ConnectionError:
            logger.info("acp.editor_gone", extra={"session": self.id})
        except HoldfastError as refusal:
            logger.warning("acp.feed_ended", exc_info=True, extra={"session": self.id})
            await self.show(note(f"The conversation can't be followed: {refusal}"))
        except Exception:
            logger.exception("acp.feed_failed", extra={"session": self.id})
        finally:
            self._is_over = True
            await self._mark_ended("")

    async def _show_event(self, event: ev.Event) -> None:
        match event:
            case ev.ApprovalAsked() | ev.QuestionAsked():
                self._permissions.ask(event, self._updates.call(event.turn_id, event.call_id))
                return
            case ev.AskClosed():
                self._permissions.closed(event)
                return
            case ev.TurnUnfinished():
                await self._show_cut_off(await self.project.host.commands.unfinished(self.live_id))
                return
            case ev.TurnStarted() | ev.TurnResumed() | ev.MessageJoined():
                await self._begin(event)
            case ev.SessionSnapshot() if event.turn_id != self._turn_id:
                await self._after_missed_turns(event)
        for update in self._updates.of(event):
            await self.show(update)
        if isinstance(event, ev.TurnCompleted | ev.TurnFailed | ev.TurnInterrupted):
            await self._mark_ended(event.turn_id)

    async def _begin(self, event: ev.TurnStarted | ev.TurnResumed | ev.MessageJoined) -> None:
        if event.turn_id != self._turn_id:
            self._turn_id, self._updates = event.turn_id, self._new_updates()
        if not isinstance(event, ev.TurnResumed) and not await self._is_own(event):
            await self.show(update_user_message_text(storable(event.text)))

    async def _is_own(self, event: ev.TurnStarted | ev.MessageJoined) -> bool:
        async with self.sending:
            if event.inbox_id:
                return event.inbox_id in self.sent
        # A turn that another process runs does not name its message; the message names its turn.
        records = self.project.host.records
        sent = [await records.sent(each) for each in self.sent]
        return any(each is not None and each.turn_id == event.turn_id for each in sent)

    async def _after_missed_turns(self, now: ev.SessionSnapshot) -> None:
        """The reader was too slow, and the turn that it showed is over: the store has its answer."""
        before = self._turn_id
        if before and (end := await self.project.host.records.turn_end(before)) is not None:
            for update in self._updates.of(end):
                await self.show(update)
        self._turn_id, self._updates = now.turn_id, self._new_updates()
        await self._mark_ended(before)

    async def _mark_ended(self, turn_id: str) -> None:
        async with self._changed:
            if turn_id:
                self._ended.add(turn_id)
            self._changed.notify_all()
