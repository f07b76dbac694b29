"""What happens in the whole store, for a process that watches the others: one statement for all of it."""

from dataclasses import dataclass, field

from holdfast.sessions.contract import SECOND, Engine, Transaction

OVERLAP_US = 6 * SECOND
"""How far a look reaches back. A change is seen when its transaction ends, which is later than its time says,
and the time at which a session was last active is up to a second old."""


@dataclass(frozen=True, slots=True)
class ActivityMark:
    """Something that differs whenever something was stored in a conversation; who holds it, if anybody."""

    holder: str
    turn_id: str
    stored: str


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """What a person answered to an ask of a turn that is open."""

    ask_id: str
    turn_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Activity:
    """What one look found. Conversations are named by their roots."""

    now: int = 0
    busy: dict[str, ActivityMark] = field(default_factory=dict)
    """Those in which a turn is open or a message waits."""
    recent: dict[str, ActivityMark] = field(default_factory=dict)
    """Those that were changed, active or deleted since the time that was asked for, or a little before."""
    interrupted: frozenset[str] = frozenset()
    """The open turns that are asked to stop."""
    answers: tuple[StoreAnswer, ...] = ()
    """The answers to what open turns asked."""


class ActivityReader:
    """Looks at the whole store. What a look costs grows with what it finds, not with the store."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self, since: int | None = None) -> Activity:
        """What is going on, and what was stored since the `now` of an earlier look; None: in this moment."""

        def work(tx: Transaction) -> list[tuple[str, str, str, str, str]]:
            rows = tx.queries.store_activity(since=since, overlap=OVERLAP_US)
            return [tuple(row) for row in rows]

        return _activity(self._engine.read_once(work))


def _activity(rows: list[tuple[str, str, str, str, str]]) -> Activity:
    now, interrupted = 0, set[str]()
    marks: dict[str, dict[str, ActivityMark]] = {"busy": {}, "recent": {}}
    answers: list[StoreAnswer] = []
    for kind, key, turn_id, holder, mark in rows:
        if kind == "now":
            now = int(mark)
        elif kind == "interrupt":
            interrupted.add(key)
        elif kind == "answer":
            answers.append(StoreAnswer(key, turn_id, mark))
        else:
            marks[kind][key] = ActivityMark(holder, turn_id, mark)
    return Activity(now, marks["busy"], marks["recent"], frozenset(interrupted), tuple(answers))
