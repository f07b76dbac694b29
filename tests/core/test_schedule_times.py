"""When a schedule runs: plain forms and cron expressions, in any time zone, also where the clock changes."""

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.errors import InvalidInput
from holdfast.core.schedule_rules import parse_rule
from holdfast.core.schedule_times import MOST_RUNS, SECOND, MissedPolicy, ScheduleTimes, local_zone, read_zone

HOUR = 3600 * SECOND
DAY = 24 * HOUR
BERLIN = "Europe/Berlin"
ZONES = (
    "UTC",
    BERLIN,
    "America/New_York",
    "America/Santiago",  # its summer begins at midnight
    "Africa/Cairo",
    "Asia/Kolkata",
    "Australia/Lord_Howe",  # its summer is half an hour
    "Pacific/Auckland",
    "Pacific/Apia",  # 30 December 2011 was left out
    "Asia/Tehran",
    "Africa/Casablanca",  # its clock changes around Ramadan
    "America/Sao_Paulo",
)


def at(text: str, zone: str = BERLIN) -> int:
    """A moment, written as the wall clock shows it; ~ is the second time that it does."""
    local = datetime.fromisoformat(text.rstrip("~")).replace(tzinfo=ZoneInfo(zone), fold=text.endswith("~"))
    return int(local.timestamp()) * SECOND


def times(rule: str, made: str = "2026-01-01 00:00", zone: str = BERLIN) -> ScheduleTimes:
    return ScheduleTimes.read(rule, zone, at(made, zone))


def shown(schedule: ScheduleTimes, after: str, count: int) -> list[str]:
    """The next moments, as the wall clock shows them, with the distance to UTC."""
    moment: int | None = at(after, str(schedule.zone))
    found = []
    for _ in range(count):
        assert moment is not None
        moment = schedule.after(moment)
        if moment is not None:
            local = datetime.fromtimestamp(moment / SECOND, schedule.zone)
            found.append(local.strftime("%a %m-%d %H:%M %z"))
    return found


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("every weekday at 8", ["Fri 11-20 08:00 +0100", "Mon 11-23 08:00 +0100"]),
        ("Every  Day at 17:30", ["Thu 11-19 17:30 +0100", "Fri 11-20 17:30 +0100"]),
        ("every weekend at 9am", ["Sat 11-21 09:00 +0100", "Sun 11-22 09:00 +0100"]),
        ("every monday, wednesday and friday at 12 pm", ["Fri 11-20 12:00 +0100", "Mon 11-23 12:00 +0100"]),
        ("every sunday at 12am", ["Sun 11-22 00:00 +0100", "Sun 11-29 00:00 +0100"]),
        ("every day at noon", ["Fri 11-20 12:00 +0100", "Sat 11-21 12:00 +0100"]),
        ("every 2 hours", ["Thu 11-19 14:20 +0100", "Thu 11-19 16:20 +0100"]),
        ("every 90 minutes", ["Thu 11-19 13:50 +0100", "Thu 11-19 15:20 +0100"]),
        ("every hour", ["Thu 11-19 13:20 +0100", "Thu 11-19 14:20 +0100"]),
        ("in 20 minutes", ["Thu 11-19 12:40 +0100"]),
        ("in an hour", ["Thu 11-19 13:20 +0100"]),
        ("in 2 days", ["Sat 11-21 12:20 +0100"]),
        ("today at 18", ["Thu 11-19 18:00 +0100"]),
        ("tomorrow at 6:45 pm", ["Fri 11-20 18:45 +0100"]),
        ("at 2026-12-05 09:00", ["Sat 12-05 09:00 +0100"]),
        ("on 2026-12-05 at 9", ["Sat 12-05 09:00 +0100"]),
        ("at 2026-12-05T09:00", ["Sat 12-05 09:00 +0100"]),
        ("0 8 * * 1-5", ["Fri 11-20 08:00 +0100", "Mon 11-23 08:00 +0100"]),
        ("0 8 * * MON-FRI", ["Fri 11-20 08:00 +0100", "Mon 11-23 08:00 +0100"]),
        ("*/20 12,13 * * *", ["Thu 11-19 12:40 +0100", "Thu 11-19 13:00 +0100"]),
        ("0 0 1 jan *", ["Fri 01-01 00:00 +0100", "Sat 01-01 00:00 +0100"]),
        ("0 9 L * *", ["Mon 11-30 09:00 +0100", "Thu 12-31 09:00 +0100"]),
    ],
)
def test_a_rule_runs_when_its_words_say(rule: str, expected: list[str]) -> None:
    now = "2026-11-19 12:20"
    assert shown(times(rule, now), now, len(expected)) == expected


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("", "needs a time"),
        ("soon", "no time that is understood"),
        ("every day", "no time that is understood"),
        ("every 5 days", "no time that is understood"),
        ("every blue at 8", "'blue' is no day"),
        ("every day at 24", "no time of day"),
        ("every day at 8:60", "no time of day"),
        ("every day at 13 pm", "no time of day"),
        ("every day at 0am", "no time of day"),
        ("every day at eight", "no time of day"),
        ("every 0 hours", "from a minute to a year"),
        ("in 999999 weeks", "from a minute to a year"),
        ("at 2026-02-30 09:00", "no day of the calendar"),
        ("* * * *", "no time that is understood"),
        ("* * * * * *", "no time that is understood"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 32 * *", "bad day-of-month"),
        ("* * 30 2 *", "bad day-of-month"),
        ("* * * 13 *", "bad month"),
        ("* * * * 8", "bad day-of-week"),
        ("* * * * foo", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("5-1 * * * *", "bad minute"),
        ("@daily * * * *", "can't be the minute"),
        ("L * * * *", "can't be the minute"),
        ("٣ * * * *", "can't be the minute"),
    ],
)
def test_what_is_no_rule_is_refused_with_what_is_wrong(rule: str, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        parse_rule(rule)


@given(st.text(max_size=40) | st.from_regex(r"\A[0-9*/,\-a-zL# ]{1,25}\Z"))
def test_any_text_is_a_rule_or_an_error_with_a_sentence(text: str) -> None:
    start = at("2026-01-01 00:00")
    with suppress(InvalidInput):
        moment = ScheduleTimes(parse_rule(text), read_zone(BERLIN), start).after(start)
        assert moment is None or moment > start


@pytest.mark.parametrize(
    "name", ["", "Berlin", "Europe", "../etc/passwd", "/etc/localtime", "UTC\0", "\ud800"]
)
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="no time zone"):
        read_zone(name)


def test_the_machine_has_a_time_zone() -> None:
    read_zone(local_zone())


# where the clock changes


def test_a_time_that_is_skipped_runs_at_the_first_moment_after_the_gap() -> None:
    assert shown(times("every day at 2:30"), "2026-03-28 02:30", 2) == [
        "Sun 03-29 03:00 +0200",
        "Mon 03-30 02:30 +0200",
    ]
    assert shown(times("at 2026-03-29 02:15"), "2026-03-01 00:00", 1) == ["Sun 03-29 03:00 +0200"]
    santiago = times("every day at midnight", zone="America/Santiago")
    assert shown(santiago, "2026-09-05 00:00", 1) == ["Sun 09-06 01:00 -0300"]


def test_times_that_are_skipped_together_run_once() -> None:
    assert shown(times("*/20 2 * * *"), "2026-03-28 02:40", 2) == [
        "Sun 03-29 03:00 +0200",
        "Mon 03-30 02:00 +0200",
    ]
    assert shown(times("0 2,3 * * *"), "2026-03-28 03:00", 2) == [
        "Sun 03-29 03:00 +0200",
        "Mon 03-30 02:00 +0200",
    ]


def test_a_time_that_occurs_twice_runs_the_first_time() -> None:
    assert shown(times("every day at 2:30"), "2026-10-24 02:30", 2) == [
        "Sun 10-25 02:30 +0200",
        "Mon 10-26 02:30 +0100",
    ]
    assert shown(times("every day at 2:30"), "2026-10-25 02:10~", 1) == ["Mon 10-26 02:30 +0100"]


def test_every_hour_is_every_hour_that_passes() -> None:
    assert shown(times("30 * * * *"), "2026-10-25 01:30", 4) == [
        "Sun 10-25 02:30 +0200",
        "Sun 10-25 02:30 +0100",
        "Sun 10-25 03:30 +0100",
        "Sun 10-25 04:30 +0100",
    ]
    assert shown(times("30 * * * *"), "2026-03-29 01:30", 2) == [
        "Sun 03-29 03:30 +0200",
        "Sun 03-29 04:30 +0200",
    ]


def test_an_interval_is_counted_in_hours_that_pass() -> None:
    assert shown(times("every 2 hours", "2026-10-25 01:00"), "2026-10-25 01:00", 2) == [
        "Sun 10-25 02:00 +0100",
        "Sun 10-25 04:00 +0100",
    ]


days = st.dates(date(2008, 1, 1), date(2030, 12, 31))
clocks = st.builds(time, st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(ZONES), days, clocks)
def test_a_daily_time_runs_once_for_each_day_at_its_time_or_after_the_gap(
    name: str, day: date, clock: time
) -> None:
    zone = ZoneInfo(name)
    schedule = ScheduleTimes.read(f"{clock.minute} {clock.hour} * * *", name, 0)
    moment = _moment(datetime.combine(day, time(), tzinfo=zone)) - DAY
    end = moment + 30 * DAY
    found = []
    while (moment := schedule.after(moment) or end) < end:
        found.append(moment)
    wanted: dict[int, None] = {}
    for number in range(-2, 32):
        due = _expected(datetime.combine(day + timedelta(days=number), clock), zone)
        if found[0] <= due < end:
            wanted[due] = None
    assert found == list(wanted)


def _expected(wall: datetime, zone: ZoneInfo) -> int:
    """The first minute, by the clock of UTC, at which the wall clock shows this time or a later one."""
    moment = wall.replace(tzinfo=UTC) - timedelta(hours=15)
    while moment.astimezone(zone).replace(tzinfo=None) < wall:
        ahead = wall - moment.astimezone(zone).replace(tzinfo=None)
        # Nearer by hours first, then by minutes: a change of the clock is passed minute by minute.
        moment += timedelta(hours=1) if ahead > timedelta(hours=4) else timedelta(minutes=1)
    return _moment(moment)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(ZONES), days, st.sampled_from(["*/15 * * * *", "5 * * * *", "10,50 * * * 0,3"]))
def test_an_hourly_rule_runs_at_every_minute_of_real_time_at_which_the_wall_clock_fits(
    name: str, day: date, rule: str
) -> None:
    zone, (minutes, *_, weekdays) = ZoneInfo(name), rule.split()
    fitting = {"*/15": {0, 15, 30, 45}, "5": {5}, "10,50": {10, 50}}[minutes]
    schedule = ScheduleTimes.read(rule, name, 0)
    start = _moment(datetime.combine(day, time(), tzinfo=UTC))
    moment, end, found = start, start + 3 * DAY, []
    while (moment := schedule.after(moment) or end) < end:
        found.append(moment)
    wanted = []
    for step in range(SECOND * 300, 3 * DAY, SECOND * 300):
        local = datetime.fromtimestamp((start + step) // SECOND, zone)
        if local.minute in fitting and (weekdays == "*" or local.isoweekday() % 7 in (0, 3)):
            wanted.append(start + step)
    assert found == wanted


@settings(deadline=None)
@given(
    st.sampled_from(ZONES),
    st.sampled_from(["every day at 2:30", "every hour", "*/7 * * * *", "0 0 29 2 *", "every 90 minutes"]),
    st.integers(1_200_000_000, 1_900_000_000),
    st.integers(0, 40 * 86_400),
)
def test_the_newest_moments_are_the_last_of_all_and_in_order(
    name: str, rule: str, start: int, seconds: int
) -> None:
    schedule = ScheduleTimes.read(rule, name, start * SECOND)
    first = schedule.after(start * SECOND)
    assert first is not None
    until, every, moment = first + seconds * SECOND, [first], first
    while (moment := schedule.after(moment) or until + 1) <= until:
        every.append(moment)
    assert all(early < late for early, late in pairwise(every))
    for most in (1, 3, MOST_RUNS):
        assert schedule.newest(first, until, most) == every[-most:]


# what is missed


@pytest.mark.parametrize("policy", ["once", "all", "skip"])
def test_a_run_in_time_is_due_whatever_the_policy(policy: MissedPolicy) -> None:
    schedule = times("every hour")
    first = schedule.after(schedule.made)
    assert first is not None
    plan = schedule.plan(first, first + 3 * SECOND, policy)
    assert [(run.due, run.state, run.missed) for run in plan.runs] == [(first, "due", 0)]
    assert plan.next_due == first + HOUR


def test_what_was_missed_for_years_is_planned_in_a_moment_and_bounded() -> None:
    schedule = times("* * * * *", "2016-01-01 00:00")
    first, now = schedule.made + 60 * SECOND, at("2026-01-01 00:00") + SECOND
    assert len(schedule.plan(first, now, "all").runs) == MOST_RUNS
    [once] = schedule.plan(first, now, "once").runs
    assert (once.due, once.missed) == (at("2026-01-01 00:00"), MOST_RUNS - 1)


def _moment(day: datetime) -> int:
    return int(day.timestamp()) * SECOND
