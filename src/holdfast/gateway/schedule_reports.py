"""`ScheduleReports`: tells the chats of an account what came of scheduled runs.

A run and its delivery are separate states. The report is a post with the run's own key, so that it is posted
once; the delivery is settled when the platform has it, or when it could not be delivered.
"""

from typing import Literal

from holdfast.gateway.post_text import NO_TEXT
from holdfast.host import SessionHost
from holdfast.host.chat_ledger import ChatLedger
from holdfast.sessions.chat_posts import NewPost
from holdfast.sessions.schedules import ScheduledRun

SETTLED = ("sent", "failed", "dropped")


class ScheduleReports:
    """The reports of one account."""

    def __init__(self, host: SessionHost, ledger: ChatLedger) -> None:
        self._host = host
        self._ledger = ledger

    async def step(self) -> None:
        """Post the reports that are due, and settle those that have arrived."""
        runs = [
            each
            for each in await self._ledger(self._host.chats.schedules.to_deliver)
            if each.room is not None
        ]
        if not runs:
            return
        rooms = {room.id: room for room in await self._ledger.of_account(self._ledger.events.rooms)}
        for run in runs:
            if run.room is not None and run.room.isdecimal() and int(run.room) in rooms:
                await self._report(run, int(run.room))

    async def _report(self, run: ScheduledRun, room_id: int) -> None:
        key = f"report:{run.key}"
        post = await self._ledger(self._ledger.posts.by_key, key)
        if post is None:
            text = await self._text(run)
            await self._ledger(self._ledger.posts.put, NewPost(key, room_id, {"text": text}))
        elif post.state in SETTLED:
            arrived: Literal["sent", "failed"] = "sent" if post.state == "sent" else "failed"
            await self._ledger(self._host.chats.schedules.settle_delivery, run.id, arrived, post.error)

    async def _text(self, run: ScheduledRun) -> str:
        if run.state != "done" or run.turn_id is None:
            return f"⚠️ A scheduled run failed: {run.error or 'no reason is on record'}"
        return await self._ledger(self._host.chats.answer_of, run.turn_id) or NO_TEXT
