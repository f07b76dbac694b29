"""When a schedule runs, as a person writes it: a few plain forms, or a cron expression of five fields.

`parse_rule` reads the text into a `Rule`, which knows no time zone and no moment; `schedule_times.py` says at
which moments it runs. The forms are in docs/schedules.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time

from holdfast.core.errors import InvalidInput

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
UNITS = {"minute": MINUTE_S, "hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S}
LONGEST_S = 366 * DAY_S
DAYS = {
    "monday": 1,
    "tuesday": 2,
    "wednesday": 3,
    "thursday": 4,
    "friday": 5,
    "saturday": 6,
    "sunday": 0,
}
GROUPS = {"day": "*", "weekday": "1-5", "weekend": "0,6"}
HALVES = {"am": 0, "pm": 12}
NAMED_TIMES = {"noon": time(12), "midnight": time(0)}
FORMS = (
    '"every weekday at 8", "every day at 17:30", "every monday and friday at 9am", "every 2 hours", '
    '"in 20 minutes", "tomorrow at 9", "at 2027-01-05 09:00", or a cron expression such as "0 8 * * 1-5"'
)

CRON_FIELDS = ("minute", "hour", "day", "month", "weekday")
TIME = re.compile(r"(\d{1,2})(?::(\d{2}))? ?(am|pm)?", re.ASCII)
_VALUE = r"(?:\d{1,2}|[a-z]{3})"
_TERM = rf"(?:\*|{_VALUE}(?:-{_VALUE})?)(?:/\d{{1,2}})?"
CRON_FIELD = re.compile(rf"(?:{_TERM}(?:,{_TERM})*|l)", re.ASCII)
"""The standard fields, and L for the last day of a month."""


@dataclass(frozen=True, slots=True)
class CronRule:
    """Again and again, by the wall clock: at the minutes that a cron expression names."""

    expression: str

    @property
    def every_hour(self) -> bool:
        """Whether it runs in each hour that passes, and not at certain hours of the wall clock."""
        return self.expression.split()[1] == "*"


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """Again and again, after so many seconds each."""

    seconds: int


@dataclass(frozen=True, slots=True)
class DelayRule:
    """Once, so many seconds after the schedule was made."""

    seconds: int


@dataclass(frozen=True, slots=True)
class DayRule:
    """Once, at a time of the day on which the schedule was made, or so many days later."""

    days: int
    time: time


@dataclass(frozen=True, slots=True)
class DateRule:
    """Once, at a moment by the wall clock."""

    local: datetime


Rule = CronRule | IntervalRule | DelayRule | DayRule | DateRule
ONE_TIME = (DelayRule, DayRule, DateRule)


def normal_text(text: str) -> str:
    """The text of a rule as it is stored: one space between words, small letters."""
    return " ".join(text.casefold().split())


def parse_rule(text: str) -> Rule:
    """Read a rule; `InvalidInput` says what is wrong, and which forms there are."""
    words = normal_text(text)
    if not words:
        raise InvalidInput(f"a schedule needs a time: {FORMS}")
    for pattern, read in PLAIN_FORMS:
        if (found := pattern.fullmatch(words)) is not None:
            return read(found)
    if words.count(" ") == len(CRON_FIELDS) - 1 and not words.startswith(("every ", "in ", "at ", "on ")):
        return _cron(words)
    raise InvalidInput(f"{words!r:.80} is no time that is understood; write it like {FORMS}")


def is_one_time(rule: Rule) -> bool:
    """Whether it runs only once."""
    return isinstance(rule, ONE_TIME)


def _cron(expression: str) -> CronRule:
    from cronsim import CronSim, CronSimError

    for name, field in zip(CRON_FIELDS, expression.split(), strict=True):
        if not CRON_FIELD.fullmatch(field) or (field == "l" and name != "day"):
            raise InvalidInput(f"{field!r:.40} can't be the {name} of a cron expression")
    try:
        CronSim(expression, datetime(2000, 1, 1))  # noqa: DTZ001 - only read, by the wall clock
    except CronSimError as cause:
        problem = str(cause).lower()
        raise InvalidInput(f"{expression!r:.80} is no cron expression: {problem}") from cause
    return CronRule(expression)


def _clock(text: str) -> time:
    if text in NAMED_TIMES:
        return NAMED_TIMES[text]
    found = TIME.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text!r:.40} is no time of day; write 8, 17:30 or 5:30 pm")
    hour, minute, half = int(found[1]), int(found[2] or 0), found[3]
    if half is not None:
        # 12 am is the first hour of the day; what no half of a day has is refused below.
        hour = hour % 12 + HALVES[half] if hour in range(1, 13) else -1
    try:
        return time(hour, minute)
    except ValueError as cause:
        problem = f"{text!r:.40} is no time of day: there are 24 hours of 60 minutes"
        raise InvalidInput(problem) from cause


def _span(number: str, unit: str) -> int:
    seconds = int(number) * UNITS[unit]
    if not 0 < seconds <= LONGEST_S:
        raise InvalidInput(f"{number} {unit}s can't be scheduled: it is from a minute to a year")
    return seconds


def _interval(found: re.Match[str]) -> Rule:
    return IntervalRule(_span(found[1] or "1", found[2]))


def _delay(found: re.Match[str]) -> Rule:
    return DelayRule(_span("1" if found[1] in ("a", "an") else found[1], found[2]))


def _daily(found: re.Match[str]) -> Rule:
    at = _clock(found[2])
    if found[1] in GROUPS:
        return CronRule(f"{at.minute} {at.hour} * * {GROUPS[found[1]]}")
    names = re.split(r", and |, | and ", found[1])
    unknown = [each for each in names if each not in DAYS]
    if unknown:
        raise InvalidInput(f"{unknown[0]!r:.40} is no day; write it like {FORMS}")
    numbers = ",".join(map(str, sorted({DAYS[each] for each in names})))
    return CronRule(f"{at.minute} {at.hour} * * {numbers}")


def _on_a_day(found: re.Match[str]) -> Rule:
    return DayRule({"today": 0, "tomorrow": 1}[found[1]], _clock(found[2]))


def _on_a_date(found: re.Match[str]) -> Rule:
    at = _clock(found[2])
    try:
        day = datetime.strptime(found[1], "%Y-%m-%d")  # noqa: DTZ007 - by the wall clock
    except ValueError as cause:
        raise InvalidInput(f"{found[1]!r:.40} is no day of the calendar") from cause
    return DateRule(day.replace(hour=at.hour, minute=at.minute))


PLAIN_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Rule]], ...] = (
    (re.compile(r"every (?:(\d{1,6}) )?(minute|hour)s?", re.ASCII), _interval),
    (re.compile(r"in (\d{1,6}|an?) (minute|hour|day|week)s?", re.ASCII), _delay),
    (re.compile(r"every (.+) at (.+)"), _daily),
    (re.compile(r"(today|tomorrow) at (.+)"), _on_a_day),
    (re.compile(r"(?:at|on) (\d{4}-\d{2}-\d{2})(?:t| at | )(.+)", re.ASCII), _on_a_date),
)
