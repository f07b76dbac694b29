"""The tools that add, list and remove schedules: messages in the conversation in which they are made."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field

from holdfast.core.errors import HoldfastError, ToolFailed
from holdfast.core.schedule_times import MissedPolicy, local_zone
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.schedules import NewSchedule, Schedule
from holdfast.tools.chat_files import conversation_of, room_of
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.decorator import tool

CREATED_BY = "agent"
MAX_SHOWN_TEXT = 200


class ScheduleTools:
    """Schedules as tools for an agent; each sees those of the scope that it works for."""

    def __init__(self, db: SessionDB, zone: str = "") -> None:
        """`zone` is for schedules that name none; empty: the machine's."""
        self._db = db
        self._zone = zone

    def tools(self) -> list[Tool]:
        asking = tool(needs_approval=True)
        return [
            asking(self.add_schedule),
            tool(changes=False)(self.list_schedules),
            asking(self.remove_schedule),
        ]

    def add_schedule(
        self,
        context: ToolContext,
        when: Annotated[str, Field(min_length=1, max_length=200)],
        text: Annotated[str, Field(min_length=1)],
        time_zone: str = "",
        missed: MissedPolicy = "once",
    ) -> str:
        """Send yourself a message in this conversation, at a time or again and again.

        A server of Holdfast sends it when it is due, and you then do what it says.

        Args:
            when: "every weekday at 8", "every monday and friday at 9:30", "every 2 hours", "in 20 minutes",
                "tomorrow at 9", "at 2027-01-05 09:00", or a cron expression such as "0 8 * * 1-5"
            text: what to do then, with all that you need to know for it
            time_zone: such as Europe/Berlin; empty for the person's own
            missed: for times at which no server ran: once (one run for all), all (each), skip (none)

        """
        room = room_of(self._db, context.session_id)
        new = NewSchedule(
            text,
            when,
            time_zone or self._zone or local_zone(),
            conversation_of(self._db, context.session_id),
            missed,
            scope=context.scope,
            created_by=CREATED_BY,
            room=None if room is None else str(room.id),
        )
        try:
            added = self._db.schedules.add(new)
        except HoldfastError as refused:
            raise ToolFailed(str(refused)) from refused
        return f"added: {_line(added)}"

    def list_schedules(self, context: ToolContext) -> str:
        """List the schedules that there are, with their numbers and when each is due next."""
        listed = [each for each in self._db.schedules.all(context.scope) if each.next_due is not None]
        return "\n".join(_line(each) for each in listed) or "there are no schedules"

    def remove_schedule(self, context: ToolContext, number: Annotated[int, Field(ge=1)]) -> str:
        """Remove a schedule; it does not run any more.

        Args:
            number: its number in list_schedules

        """
        found = self._db.schedules.get(number)
        if found is None or found.scope != context.scope:
            raise ToolFailed(f"there is no schedule {number}")
        self._db.schedules.remove(number)
        return f"removed schedule {number}"


def _line(schedule: Schedule) -> str:
    text = " ".join(schedule.text.split())
    if len(text) > MAX_SHOWN_TEXT:
        text = f"{text[:MAX_SHOWN_TEXT]}…"
    return f"{schedule.id}: {schedule.rule} ({schedule.zone}), {_next(schedule)}: {text}"


def _next(schedule: Schedule) -> str:
    if schedule.state == "paused":
        return "paused"
    if schedule.next_due is None:
        return "over"
    due = datetime.fromtimestamp(schedule.next_due / SECOND, UTC).astimezone(schedule.times.zone)
    return f"next {due:%A %Y-%m-%d %H:%M}"
