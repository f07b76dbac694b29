"""`holdfast schedule`: messages that are sent into a conversation at certain times."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from cyclopts import App, Parameter

from holdfast.cli.output import show, show_json, width
from holdfast.cli.session_lookup import SHORT, find_in_store
from holdfast.core.clean_text import one_line
from holdfast.core.errors import InvalidInput, ScheduleNotFound
from holdfast.core.schedule_times import MissedPolicy, local_zone, read_zone
from holdfast.host.schedule_runner import is_served
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import SECOND
from holdfast.sessions.schedules import NewSchedule, Schedule, ScheduledRun
from holdfast.wiring import existing_store, load_settings, open_store

CREATED_BY = "cli"
NOBODY_RUNS_THEM = "! No server runs on this store, so nothing is run. Start one: holdfast web"

Flag = Annotated[bool, Parameter(negative="")]
Json = Annotated[bool, Parameter(name="--json", negative="")]
Number = Annotated[int, Parameter(help="Its number in the list.")]

schedule = App(name="schedule", help="Messages at certain times: add, list, pause, run and remove them.")


@schedule.command
def add(
    when: str,
    text: str,
    /,
    *,
    session: str = "",
    zone: str = "",
    missed: MissedPolicy = "once",
    room: str = "",
) -> None:
    """Add a schedule.

    Parameters
    ----------
    when
        "every weekday at 8", "every 2 hours", "in 20 minutes", "at 2027-01-05 09:00", or a cron expression.
    text
        What the agent is told to do then.
    session
        The conversation that it is said in: an id, the end of one, or a number in the list of conversations.
        Without it the schedule has a conversation of its own.
    zone
        The time zone, such as Europe/Berlin; by default the setting host.time_zone, or the machine's.
    missed
        For times at which no server ran: once (one run for all of them), all (each) or skip (none).
    room
        The chat that is told the answer.

    """
    settings = load_settings()
    with open_store(settings) as db:
        added = db.schedules.add(
            NewSchedule(
                text,
                when,
                zone or settings.host.time_zone or local_zone(),
                find_in_store(db, session) if session else None,
                missed,
                room or None,
                created_by=CREATED_BY,
            )
        )
        show(f"added schedule {added.id}: {added.rule}, {_next(added)} {added.zone}")
        _warn_unserved(db)


@schedule.default
def list_schedules(
    *, everything: Annotated[bool, Parameter(name="--all", negative="")] = False, as_json: Json = False
) -> None:
    """List the schedules: when each is due next, and how its last run ended.

    Parameters
    ----------
    everything
        List also those that are over.
    as_json
        Print JSON.

    """
    with existing_store(load_settings()) as db:
        found = [each for each in db.schedules.all() if everything or _is_open(db, each)]
        last = {each.id: next(iter(db.schedules.runs(each.id, limit=1)), None) for each in found}
        served = is_served(db)
        if as_json:
            listed = [{**asdict(each), "last_run": _as_json(last[each.id])} for each in found]
            show_json({"served": served, "schedules": listed})
            return
        for each in found:
            show(_line(each, last[each.id]))
        if not found:
            show('There are no schedules. Add one: holdfast schedule add "every weekday at 8" "What to do"')
        elif not served:
            show(NOBODY_RUNS_THEM)


schedule.command(list_schedules, name="list")


@schedule.command(name="show")
def show_schedule(number: Number, /, *, limit: int = 20) -> None:
    """Show a schedule and its last runs.

    Parameters
    ----------
    number
        Its number in the list.
    limit
        How many runs.

    """
    with existing_store(load_settings()) as db:
        found = db.schedules.get(number)
        if found is None:
            raise ScheduleNotFound(number)
        runs = db.schedules.runs(number, limit=limit)
        show(f"{found.rule} ({found.zone}), {_next(found)}; missed: {found.missed}")
        show(f"conversation {found.session_id}" + (f", chat {found.room}" if found.room else ""))
        show(found.text)
        for run in runs:
            show(one_line(f"{_local(run.due, found.zone)}  {_told(run)}", width(), squeeze=False))
        if not runs:
            show("It has not run yet.")


@schedule.command
def pause(number: Number, /) -> None:
    """Pause a schedule: it is not due until it is resumed."""
    with existing_store(load_settings()) as db:
        db.schedules.pause(number)
    show(f"schedule {number} is paused")


@schedule.command
def resume(number: Number, /) -> None:
    """Resume a schedule, from its next time on."""
    with existing_store(load_settings()) as db:
        resumed = db.schedules.resume(number)
        show(f"schedule {number} is active, {_next(resumed)} {resumed.zone}")
        _warn_unserved(db)


@schedule.command
def run(number: Number, /) -> None:
    """Run a schedule now, beside its times; also one that is paused."""
    with existing_store(load_settings()) as db:
        db.schedules.run_now(number)
        show(f"schedule {number} is due now; its answer will be in the conversation")
        _warn_unserved(db)


@schedule.command
def remove(number: Number, /) -> None:
    """Remove a schedule with its runs; what was said stays in the conversation."""
    with existing_store(load_settings()) as db:
        db.schedules.remove(number)
    show(f"schedule {number} is removed")


def _warn_unserved(db: SessionDB) -> None:
    if not is_served(db):
        show(NOBODY_RUNS_THEM)


def _is_open(db: SessionDB, each: Schedule) -> bool:
    """Whether it is due again, or a run of it has not ended."""
    return each.next_due is not None or any(run.ended is None for run in db.schedules.runs(each.id))


def _line(each: Schedule, last: ScheduledRun | None) -> str:
    ran = f"last run {_local(last.due, each.zone)} {_told(last)}" if last is not None else "not run yet"
    head = f"{each.id:>4}  {each.rule} ({each.zone})  {_next(each)}  …{each.session_id[-SHORT:]}  {ran}  "
    return one_line(f"{head}{each.text}", width(), squeeze=False)


def _next(each: Schedule) -> str:
    if each.state == "paused":
        return "paused"
    return "over" if each.next_due is None else f"next {_local(each.next_due, each.zone)}"


def _told(run: ScheduledRun) -> str:
    """How a run stands and, apart from that, whether its chat was told."""
    words: list[str] = [run.state]
    if run.missed:
        words.append(f"{run.missed} missed before it")
    if run.error:
        words.append(run.error)
    if run.delivery != "none":
        error = f": {run.delivery_error}" if run.delivery_error else ""
        words.append(f"delivery {run.delivery}{error}")
    return ", ".join(words)


def _as_json(run: ScheduledRun | None) -> dict[str, object] | None:
    return None if run is None else asdict(run)


def _local(moment: int, zone: str) -> str:
    """A moment as the clock of the schedule's time zone shows it."""
    try:
        place = read_zone(zone)
    except InvalidInput:
        return datetime.fromtimestamp(moment / SECOND, UTC).strftime("%a %Y-%m-%d %H:%M UTC")
    return datetime.fromtimestamp(moment / SECOND, UTC).astimezone(place).strftime("%a %Y-%m-%d %H:%M")
