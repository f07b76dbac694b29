"""At which moments a schedule runs: its rule, in a time zone, from the moment when it was made.

A time that the wall clock skips, when summer begins, runs at the first moment after the gap. A time that
occurs twice, when summer ends, runs the first time. A rule for every hour or minute is not about the wall
clock's hours, and runs in each hour that passes. Moments are the store's: microseconds since the epoch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal, get_args
from zoneinfo import ZoneInfo

from holdfast.core.errors import InvalidInput
from holdfast.core.schedule_rules import (
    CronRule,
    DateRule,
    DayRule,
    DelayRule,
    IntervalRule,
    Rule,
    is_one_time,
    parse_rule,
)

MissedPolicy = Literal["once", "all", "skip"]
MISSED_POLICIES: tuple[MissedPolicy, ...] = get_args(MissedPolicy)
"""What becomes of runs that were missed: one run for all of them, a run for each, or none."""

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NEAR = timedelta(hours=26)
"""How far from a change of the clock a wall time can be mapped in two ways."""
LATE_US = 60 * SECOND
"""A run that is later than this was missed."""
MOST_RUNS = 100
"""How many missed runs are made up for, or counted, at most: the newest."""
FIRST_WINDOW_US = 3600 * SECOND


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A run to be recorded: due, or skipped; `missed` earlier times have no run of their own."""

    due: int
    state: Literal["due", "skipped"]
    missed: int = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What is recorded when a schedule's time has come, and when it comes next; None: never."""

    runs: tuple[PlannedRun, ...]
    next_due: int | None


@dataclass(frozen=True, slots=True)
class ScheduleTimes:
    """The moments of one schedule."""

    rule: Rule
    zone: tzinfo
    made: int

    @classmethod
    def read(cls, text: str, zone: str, made: int) -> "ScheduleTimes":
        """Of the texts of a rule and a time zone; `InvalidInput` says what is wrong with them."""
        return cls(parse_rule(text), read_zone(zone), made)

    @property
    def is_one_time(self) -> bool:
        return is_one_time(self.rule)

    def after(self, moment: int) -> int | None:
        """The first moment after this one; None when there is none any more."""
        match self.rule:
            case CronRule():
                found = self._cron_after(self.rule, _date(moment))
                return None if found is None else _moment(found)
            case IntervalRule(seconds):
                step = seconds * SECOND
                return self.made + max(1, (moment - self.made) // step + 1) * step
            case _:
                only = self._only(self.rule)
                return only if only > moment else None

    def newest(self, first: int, until: int, most: int) -> list[int]:
        """The last `most` moments from the moment `first`, which is one of them, to `until`."""
        span = FIRST_WINDOW_US
        while True:
            begin = max(first - 1, until - span)
            found = list(self._between(begin, until))
            if len(found) >= most or begin == first - 1:
                return found[-most:]
            span *= 2

    def plan(self, first: int, now: int, policy: MissedPolicy) -> RunPlan:
        """What is to be done at the moment `now`, when the schedule was due at `first`."""
        found = self.newest(first, now, MOST_RUNS) or [first]
        runs: list[PlannedRun]
        if policy == "all":
            runs = [PlannedRun(due, "due") for due in found]
        elif policy == "once":
            runs = [PlannedRun(found[-1], "due", len(found) - 1)]
        else:
            in_time = [due for due in found[-1:] if now - due <= LATE_US]
            missed = found[: len(found) - len(in_time)]
            runs = [PlannedRun(missed[-1], "skipped", len(missed) - 1)] if missed else []
            runs += [PlannedRun(due, "due") for due in in_time]
        return RunPlan(tuple(runs), self.after(now))

    def _between(self, begin: int, until: int) -> Iterator[int]:
        moment = self.after(begin)
        while moment is not None and moment <= until:
            yield moment
            moment = self.after(moment)

    def _only(self, rule: DelayRule | DayRule | DateRule) -> int:
        if isinstance(rule, DelayRule):
            return self.made + rule.seconds * SECOND
        if isinstance(rule, DateRule):
            return _moment(first_moment(rule.local, self.zone))
        day = _date(self.made).astimezone(self.zone).date() + timedelta(days=rule.days)
        return _moment(first_moment(datetime.combine(day, rule.time), self.zone))

    def _cron_after(self, rule: CronRule, moment: datetime) -> datetime | None:
        """The first moment after this one, of the wall times that the expression names."""
        from cronsim import CronSim

        local = moment.astimezone(self.zone).replace(tzinfo=None)
        # Where the clock is set back, a wall time before this one may still come for the second time.
        shifts = (moment - NEAR).astimezone(self.zone).utcoffset() != (moment + NEAR).astimezone(
            self.zone
        ).utcoffset()
        best: datetime | None = None
        for wall in CronSim(rule.expression, local - NEAR if shifts and rule.every_hour else local):
            moments = every_moment(wall, self.zone) if rule.every_hour else [first_moment(wall, self.zone)]
            if best is not None and moments and moments[0] >= best:
                break
            for each in moments:
                if each > moment and (best is None or each < best):
                    best = each
        return best


def read_zone(name: str) -> ZoneInfo:
    """A time zone by its name, such as Europe/Berlin."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError) as cause:
        raise InvalidInput(
            f"there is no time zone {name!r:.60}; write it like Europe/Berlin or UTC"
        ) from cause


def local_zone() -> str:
    """The name of the machine's time zone; UTC when it has none."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name()
        read_zone(name)
    except (InvalidInput, LookupError, ValueError, OSError):
        return "UTC"
    return name


def first_moment(wall: datetime, zone: tzinfo) -> datetime:
    """When a wall clock first shows this time, or, in a gap, the first moment after the gap."""
    found = every_moment(wall, zone)
    if found:
        return found[0]
    # In a gap `fold` chooses the offset from before or after it, so the change lies between the two.
    low = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = low.astimezone(zone).utcoffset()
    while high - low > MICROSECOND:
        middle = low + (high - low) / 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high


def every_moment(wall: datetime, zone: tzinfo) -> list[datetime]:
    """When a wall clock shows this time: once, twice, or never."""
    found = []
    for fold in (0, 1):
        moment = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if moment not in found and moment.astimezone(zone).replace(tzinfo=None) == wall:
            found.append(moment)
    return found


def _date(moment: int) -> datetime:
    return EPOCH + timedelta(microseconds=moment)


def _moment(date: datetime) -> int:
    return (date - EPOCH) // MICROSECOND
