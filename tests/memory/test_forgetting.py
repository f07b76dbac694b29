"""Forgetting reaches every provider, survives crashes, and nothing brings back what was forgotten."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.memory import MemoryManager
from holdfast.memory.forget_selection import ForgetQuery, period_of
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.memory.retry import RetryPolicy
from holdfast.providers.local import LocalMemory
from holdfast.sessions import SessionDB
from holdfast.sessions.forgettings import Forgetting
from holdfast.testing import CrashingEngine, FakeClock
from holdfast.testing.faults import Moment
from holdfast.testing.providers import RecordingProvider

LONG = 20.0
QUICK = RetryPolicy(initial_delay_seconds=0.01, max_delay_seconds=0.02)
Start = Callable[..., MemoryManager]


class ForgetfulProvider(RecordingProvider):
    """Deletes turns; fails as often as it is told to."""

    def __init__(self, name: str = "forgetful") -> None:
        super().__init__(name)
        self.requests: list[ForgetRequest] = []
        self.failures = 0

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        self.requests.append(request)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("the backend is away")
        return ForgetReport(len(request.turns))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def start(db: SessionDB, tmp_path: Path) -> Iterator[Start]:
    """Starts managers with a local memory and other providers, as a process does."""
    managers: list[MemoryManager] = []

    def starter(*others: RecordingProvider, store: SessionDB = db) -> MemoryManager:
        memory = MemoryManager(store, policy=QUICK, drain_seconds=2.0)
        managers.append(memory)
        memory.add_provider(LocalMemory(tmp_path / "memory.db", clock=SystemClock(), embedder=None))
        for each in others:
            memory.add_provider(each)
        return memory

    yield starter
    for memory in managers:
        memory.shutdown_all()


def say(memory: MemoryManager, text: str, session: str = "s", answer: str = "I see.") -> None:
    memory.sync_all(text, answer, session_id=session)
    assert memory.flush_pending(LONG)


def forget(memory: MemoryManager, query: ForgetQuery) -> Forgetting:
    selection = memory.forgetter.select.of(query)
    record = memory.forgetter.wait(memory.forgetter.forget(selection), LONG)
    assert record is not None
    return record


def outcome(record: Forgetting, provider: str) -> tuple[str, int, str]:
    return next(
        (each.state, each.forgotten, each.note) for each in record.providers if each.provider == provider
    )


def test_a_conversation_is_forgotten_by_every_provider(start: Start) -> None:
    other, unable = ForgetfulProvider(), RecordingProvider("plain")
    memory = start(other, unable)
    say(memory, "my heron is called Quetzalina")
    say(memory, "my otter is called Bartholomew", "kept")
    record = forget(memory, ForgetQuery(session_id="s"))
    assert outcome(record, "local")[0] == "done"
    assert outcome(record, "forgetful") == ("done", 1, "")
    state, _, note = outcome(record, "plain")
    assert (state, "can't forget" in note) == ("unable", True)
    assert "Quetzalina" not in memory.prefetch_all("heron Quetzalina", session_id="x")
    assert "Bartholomew" in memory.prefetch_all("otter Bartholomew", session_id="x")
    assert other.requests[0].sessions == ("s",)


@pytest.mark.parametrize(
    "query",
    [
        ForgetQuery(words="heron quetzalina"),
        ForgetQuery(person="Ann"),
        ForgetQuery(after=0.0),
        ForgetQuery(session_id="s"),
    ],
    ids=["words", "person", "time", "conversation"],
)
def test_what_is_selected_goes_and_the_record_has_no_word_of_it(
    start: Start, db: SessionDB, tmp_path: Path, query: ForgetQuery
) -> None:
    memory = start()
    say(memory, "Ann: my heron is called Quetzalina")
    record = forget(memory, query)
    assert outcome(record, "local")[0] == "done"
    assert outcome(record, "local")[1] >= 2
    assert memory.prefetch_all("heron Quetzalina", session_id="x") == ""
    assert memory.search("heron").found == ()
    (kept,) = db.forgettings.list()
    assert not any(word in repr(kept).lower() for word in ("heron", "quetzalina", "ann"))
    assert b"quetzalina" not in (tmp_path / "memory.db").read_bytes().lower()


def test_a_single_memory_takes_its_turn_along_in_other_providers(start: Start) -> None:
    other = ForgetfulProvider()
    memory = start(other)
    say(memory, "my heron is called Quetzalina")
    say(memory, "my otter is called Bartholomew")
    found = memory.search("heron", provider="local").found[0]
    forget(memory, ForgetQuery(memories=(("local", str(found.id)),)))
    assert [each[1] for each in other.requests[0].turns] == [found.turn_id]
    assert other.requests[0].sessions == ()


def test_words_select_only_what_has_all_of_them(start: Start) -> None:
    memory = start()
    say(memory, "I bake bread on Sundays")
    say(memory, "I think hard on Sundays")
    selection = memory.forgetter.select.of(ForgetQuery(words="BREAD Sundays"))
    assert [each.text for each in selection.memories] == ["I bake bread on Sundays"]


@pytest.mark.clause("D3")
def test_a_provider_that_fails_is_asked_again_until_it_has_forgotten(start: Start) -> None:
    other = ForgetfulProvider()
    other.failures = 2
    memory = start(other)
    say(memory, "my heron is called Quetzalina")
    record = forget(memory, ForgetQuery(session_id="s"))
    assert outcome(record, "forgetful") == ("done", 1, "")
    assert len({each.key for each in other.requests}) == 1
    assert len(other.requests) == 3


def test_what_failed_for_good_is_kept_for_a_person_who_can_retry(start: Start, db: SessionDB) -> None:
    other = ForgetfulProvider()
    other.failures = QUICK.max_attempts
    memory = start(other)
    say(memory, "my heron is called Quetzalina")
    record = forget(memory, ForgetQuery(session_id="s"))
    assert outcome(record, "forgetful")[0] == "failed"
    assert "the backend is away" in outcome(record, "forgetful")[2]
    memory.forgetter.retry(record.id)
    again = memory.forgetter.wait(record.id, LONG)
    assert again is not None
    assert outcome(again, "forgetful")[0] == "done"


def test_a_turn_that_is_still_owed_never_arrives(start: Start, db: SessionDB) -> None:
    held = ForgetfulProvider("held")
    memory = MemoryManager(db)
    memory.add_pending("held", "it loads slowly")
    memory.sync_all("my heron is called Quetzalina", "I see.", session_id="s")
    forgetting = memory.forgetter.forget(memory.forgetter.select.of(ForgetQuery(session_id="s")))
    memory.shutdown_all()
    later = start(held)
    assert later.forgetter.wait(forgetting, LONG) is not None
    assert later.flush_pending(LONG)
    assert held.turns == []


def test_a_recall_that_was_kept_for_later_is_dropped(start: Start) -> None:
    memory = start()
    say(memory, "my heron is called Quetzalina")
    memory.queue_prefetch_all("heron Quetzalina", session_id="x")
    assert memory.flush_pending(LONG)
    forget(memory, ForgetQuery(session_id="s"))
    assert memory.prefetch_all("heron Quetzalina", session_id="x") == ""


def test_another_process_drops_its_kept_recalls_too(db: SessionDB, start: Start, tmp_path: Path) -> None:
    clock = FakeClock()
    memory = start()
    say(memory, "my heron is called Quetzalina")
    other = MemoryManager(db, clock=clock, drain_seconds=1.0)
    other.add_provider(LocalMemory(tmp_path / "memory.db", clock=SystemClock(), embedder=None))
    try:
        other.queue_prefetch_all("heron Quetzalina", session_id="x")
        forget(memory, ForgetQuery(session_id="s"))
        lane = other._lanes["local"].recalls  # noqa: SLF001 - what the other process has kept
        deadline = SystemClock().monotonic() + LONG
        while lane.has_kept_answers:
            clock.advance(6)
            assert SystemClock().monotonic() < deadline
            SystemClock().wait(threading.Event(), 0.02)
    finally:
        other.shutdown_all()


@pytest.mark.clause("D1")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("at", ["take_forgetting", "settle_forgetting"])
def test_a_crash_in_between_is_resumed_at_the_next_start(
    db: SessionDB, start: Start, at: str, moment: Moment
) -> None:
    other = ForgetfulProvider()
    crashing = CrashingEngine(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
    memory = start(other, store=SessionDB.on(crashing))
    say(memory, "my heron is called Quetzalina")
    crashing.arm(moment, at=at, for_good=True)
    number = memory.forgetter.forget(memory.forgetter.select.of(ForgetQuery(session_id="s")))
    deadline = SystemClock().monotonic() + LONG
    while not crashing.dead:
        assert SystemClock().monotonic() < deadline
        SystemClock().wait(threading.Event(), 0.01)
    memory.shutdown_all()
    fresh = ForgetfulProvider()
    again = start(fresh)
    record = again.forgetter.wait(number, LONG)
    assert record is not None
    assert {each.state for each in record.providers} == {"done"}
    assert again.prefetch_all("heron Quetzalina", session_id="x") == ""


def test_a_provider_that_is_not_in_use_forgets_when_it_is_back(start: Start, db: SessionDB) -> None:
    memory = start(ForgetfulProvider())
    say(memory, "my heron is called Quetzalina")
    memory.shutdown_all()
    without = start()
    record = forget(without, ForgetQuery(session_id="s"))
    assert outcome(record, "forgetful")[0] == "owed"
    without.shutdown_all()
    back = ForgetfulProvider()
    with_it = start(back)
    settled = with_it.forgetter.wait(record.id, LONG)
    assert settled is not None
    assert outcome(settled, "forgetful") == ("done", 1, "")


@pytest.mark.parametrize(
    "query",
    [
        ForgetQuery(),
        ForgetQuery(words="a", person="b"),
        ForgetQuery(person="assistant"),
        ForgetQuery(memories=(("local", "12345"),)),
        ForgetQuery(memories=(("nobody", "1"),)),
        ForgetQuery(after=9e12),
    ],
)
def test_a_selection_that_means_nothing_is_refused(start: Start, query: ForgetQuery) -> None:
    memory = start()
    with pytest.raises(InvalidInput):
        memory.forgetter.select.of(query)
    with pytest.raises(SessionNotFound):
        memory.forgetter.select.of(ForgetQuery(session_id="none"))


def test_days_and_moments_are_understood() -> None:
    begin, end = period_of(on="2025-01-31")
    assert begin is not None
    assert end == begin + 86_400
    assert period_of(after="2025-01-31T18:00+00:00") == (1738346400.0, None)
    assert period_of() == (None, None)
    with pytest.raises(InvalidInput):
        period_of(on="2025-01-31", after="2025-01-01")
    with pytest.raises(InvalidInput):
        period_of(before="soon")


def test_what_a_person_said_is_selected_only_when_memory_has_all_of_it(start: Start, db: SessionDB) -> None:
    memory = start()
    memory.sync_all("Ann: my heron is called Quetzalina", "I see.", session_id="s")
    selection = memory.forgetter.select.of(ForgetQuery(person="ann"))
    assert len(selection.turns) == 1
