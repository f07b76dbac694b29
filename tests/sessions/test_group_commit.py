"""The one writer on SQLite: many callers share a commit, and each gets its own verdict."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import HoldfastError, SessionNotFound, StoreClosed, StoreFailure
from holdfast.sessions import SessionDB, Transaction
from holdfast.sessions.codec import Columns
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.sessions.sqlite.search_index import MOST_CHARACTERS, index_batch, unindexed
from holdfast.sessions.transcripts import insert_message
from holdfast.testing import ProcessDied
from tests.sessions.store_fixtures import LONG, Call, Outcome, contents, together, until, user

FRESH = 12


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def engine(path: Path) -> Iterator[SqliteEngine]:
    engine = SqliteEngine(str(path), clock=SystemClock(), patience=LONG)
    yield engine
    engine.close()


@pytest.fixture
def db(engine: SqliteEngine) -> SessionDB:
    db = SessionDB.on(engine)
    db.create_session("s", source="cli")
    return db


class HeldWriter:
    """Keeps the writer busy inside a unit of work, so that the calls made meanwhile form one group."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._begun, self._gate = threading.Event(), threading.Event()
        self._first = Outcome(lambda: engine.write(self._hold))
        assert self._begun.wait(LONG)
        self._outcomes: list[Outcome] = []
        self._submitted = 0
        self._engine = engine

    def _hold(self, tx: Transaction) -> None:
        self._begun.set()
        assert self._gate.wait(LONG)

    def call(self, call: Call) -> Outcome:
        """Make a call that has to wait for the writer."""
        outcome = Outcome(call)
        self._outcomes.append(outcome)
        # Queued one after the other, so the group has a known order.
        until(lambda: len(self._engine._writer._queue._waiting) == len(self._outcomes))  # noqa: SLF001
        return outcome

    def let_go(self) -> None:
        self._gate.set()
        for outcome in (self._first, *self._outcomes):
            outcome.wait()


def test_calls_that_wait_together_share_one_commit(engine: SqliteEngine, db: SessionDB) -> None:
    wal = Path(f"{engine.location}-wal")
    alone = wal.stat().st_size
    db.sessions.append_message("s", user("alone"))
    alone = wal.stat().st_size - alone
    before = wal.stat().st_size
    writer = HeldWriter(engine)
    for number in range(20):
        writer.call(lambda number=number: db.sessions.append_message("s", user(str(number))))  # type: ignore[misc]
    writer.let_go()
    assert wal.stat().st_size - before < 5 * alone, "pages shared by the group are written once"
    assert contents(db.get_messages("s")) == ["alone", *map(str, range(20))]


def test_one_that_fails_is_undone_alone_and_raises_to_its_own_caller(
    engine: SqliteEngine, db: SessionDB
) -> None:
    def half_done(tx: Transaction) -> None:
        tx.connection.execute("update sessions set title = 'half done' where id = 's'")
        raise ProcessDied("before")

    def broken(tx: Transaction) -> None:
        tx.connection.execute("update sessions set title = 'broken' where id = 's'")
        tx.connection.execute("insert into sessions (id, source, started) values ('s', 'x', 1)")

    writer = HeldWriter(engine)
    outcomes = [
        writer.call(lambda: db.sessions.append_message("s", user("first"))),
        writer.call(lambda: engine.write(half_done)),
        writer.call(lambda: db.sessions.append_message("s", user("second"))),
        writer.call(lambda: db.sessions.append_message("nobody", user("lost"))),
        writer.call(lambda: engine.write(broken)),
        writer.call(lambda: db.sessions.append_messages("s", [user("third"), user("fourth")])),
    ]
    writer.let_go()
    assert [outcome.result for outcome in outcomes] == [0, None, 1, None, None, [2, 3]]
    errors = [outcome.error for outcome in outcomes]
    assert [errors[number] for number in (0, 2, 5)] == [None] * 3
    assert isinstance(errors[1], ProcessDied)
    assert isinstance(errors[3], SessionNotFound)
    assert isinstance(errors[4], HoldfastError)
    assert contents(db.get_messages("s")) == ["first", "second", "third", "fourth"]
    session = db.get_session("s")
    assert session is not None
    assert session.title is None
    assert db.check() == []


def test_a_group_in_which_every_one_fails_changes_nothing(engine: SqliteEngine, db: SessionDB) -> None:
    writer = HeldWriter(engine)
    outcomes = [writer.call(lambda: db.sessions.append_message("nobody", user("x"))) for _ in range(5)]
    writer.let_go()
    assert all(isinstance(outcome.error, SessionNotFound) for outcome in outcomes)
    assert len({id(outcome.error) for outcome in outcomes}) == 5, "an error of its own for each"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_whatever_work_raises_the_writer_goes_on(
    engine: SqliteEngine, db: SessionDB, error: type[BaseException]
) -> None:
    def fail(tx: Transaction) -> None:
        raise error

    outcome = Outcome(lambda: engine.write(fail)).wait()
    assert outcome.error is not None
    assert db.sessions.append_message("s", user("still here")) == 0


def test_a_writer_whose_connection_broke_answers_everyone(engine: SqliteEngine, db: SessionDB) -> None:
    writer = HeldWriter(engine)
    outcomes = [
        writer.call(lambda: engine.write(lambda tx: tx.connection.close())),
        writer.call(lambda: db.sessions.append_message("s", user("waited"))),
    ]
    writer.let_go()
    outcomes += [Outcome(lambda: db.sessions.append_message("s", user("later"))).wait() for _ in range(2)]
    assert all(isinstance(outcome.error, StoreFailure) for outcome in outcomes)
    assert db.get_messages("s") == []
    db.close()


def test_a_check_beside_writers_finds_a_sound_database_sound(engine: SqliteEngine, db: SessionDB) -> None:
    writer = HeldWriter(engine)
    writer.call(lambda: db.sessions.append_message("s", user("not in the search index yet")))
    verdict = writer.call(db.check)
    writer.let_go()
    assert verdict.result == []


def test_many_threads_write_and_read_their_own_writes(db: SessionDB) -> None:
    for number in range(16):
        db.create_session(f"s{number}", source="cli")

    def work(number: int) -> None:
        for step in range(25):
            db.sessions.append_message(f"s{number}", user(str(step)))
            assert len(db.get_messages(f"s{number}")) == step + 1

    assert together(*(lambda n=n: work(n) for n in range(16))) == [None] * 16


def test_closing_finishes_what_waits_and_refuses_the_rest(
    engine: SqliteEngine, db: SessionDB, path: Path
) -> None:
    writer = HeldWriter(engine)
    outcomes = [
        writer.call(lambda n=n: db.sessions.append_message("s", user(str(n))))  # type: ignore[misc]
        for n in range(5)
    ]
    closing = Outcome(engine.close)
    until(lambda: engine._writer._queue._closed)  # noqa: SLF001 - closing has begun
    late = Outcome(lambda: db.sessions.append_message("s", user("late"))).wait()
    assert isinstance(late.error, StoreClosed)
    assert closing.is_waiting
    writer.let_go()
    closing.wait()
    assert [outcome.result for outcome in outcomes] == [0, 1, 2, 3, 4]
    with SessionDB(path) as reopened:
        assert len(reopened.get_messages("s")) == 5


def test_a_closed_store_says_so_whatever_it_is_asked(db: SessionDB) -> None:
    db.close()
    db.close()
    for call in (
        lambda: db.sessions.append_message("s", user("x")),
        lambda: db.get_messages("s"),
        lambda: db.search("x"),
        lambda: db.try_acquire_compression_lock("s", "me"),
        db.check,
        lambda: db.export_session("s"),
    ):
        with pytest.raises(StoreClosed, match="closed"):
            call()


def test_closing_lets_go_of_every_connection(engine: SqliteEngine, db: SessionDB, path: Path) -> None:
    begun = threading.Barrier(9)

    def read(tx: Transaction) -> None:
        tx.connection.execute("select count(*) from messages").fetchone()
        begun.wait(LONG)

    readers = [Outcome(lambda: engine.read(read)) for _ in range(8)]
    begun.wait(LONG)
    for reader in readers:
        assert reader.wait().error is None
    db.close()
    descriptors = list(Path("/proc/self/fd").iterdir())
    open_files = {os.path.realpath(descriptor) for descriptor in descriptors}
    assert not {file for file in open_files if file.startswith(str(path))}
    assert not Path(f"{path}-wal").exists(), "the last one to leave folds the log into the file"


def test_a_reader_in_progress_finishes_while_the_store_closes(
    engine: SqliteEngine, db: SessionDB, path: Path
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def read(tx: Transaction) -> int:
        begun.set()
        assert gate.wait(LONG)
        return int(tx.connection.execute("select count(*) from sessions").fetchone()[0])

    reader = Outcome(lambda: engine.read(read))
    assert begun.wait(LONG)
    db.close()
    gate.set()
    assert reader.wait().result == 1
    with pytest.raises(StoreClosed):
        db.get_messages("s")


def test_a_read_sees_one_snapshot_while_others_write(engine: SqliteEngine, db: SessionDB) -> None:
    def count(tx: Transaction) -> int:
        return int(tx.connection.execute("select count(*) from messages").fetchone()[0])

    def read_twice(tx: Transaction) -> tuple[int, int]:
        first = count(tx)
        db.sessions.append_message("s", user("meanwhile"))
        return first, count(tx)

    assert engine.read(read_twice) == (0, 0)
    assert engine.read(count) == 1


def test_a_reader_can_not_write(engine: SqliteEngine, db: SessionDB) -> None:
    with pytest.raises(HoldfastError):
        engine.read(lambda tx: tx.connection.execute("delete from sessions"))
    assert db.get_session("s") is not None


def test_a_forked_child_is_refused_and_does_the_parent_no_harm(db: SessionDB, path: Path) -> None:
    db.sessions.append_message("s", user("before"))
    assert db.get_messages("s"), "so that a reader is open"
    said, says = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - the child's coverage is not collected
        refusals = 0

        def call(work: Call) -> None:
            nonlocal refusals
            try:
                work()
            except StoreClosed:
                refusals += 1

        for work in (lambda: db.sessions.append_message("s", user("child")), lambda: db.get_messages("s")):
            call(work)
            # A thread that begins here may look like the writer, which is gone.
            for _ in range(FRESH):
                thread = threading.Thread(target=call, args=(work,))
                thread.start()
                thread.join()
        db.close()
        os.write(says, str(refusals).encode())
        os._exit(0)
    os.close(says)
    with os.fdopen(said) as pipe:
        assert pipe.read() == str(2 * (1 + FRESH))
    os.waitpid(child, 0)
    db.sessions.append_message("s", user("after"))
    assert contents(db.get_messages("s")) == ["before", "after"]
    assert db.check() == []


def test_a_thread_that_begins_after_the_end_is_told_that_the_store_is_closed(db: SessionDB) -> None:
    db.close()
    for _ in range(FRESH):
        for call in (lambda: db.sessions.append_message("s", user("late")), lambda: db.get_messages("s")):
            late = Outcome(call).wait()
            assert isinstance(late.error, StoreClosed)


def test_a_child_forked_while_a_reader_is_taken_can_close(engine: SqliteEngine, db: SessionDB) -> None:
    assert db.get_messages("s") == [], "so that a reader is open"
    with engine._readers._idle.mutex:  # type: ignore[union-attr]  # noqa: SLF001 - held for a moment by each read
        child = os.fork()
        if child == 0:  # pragma: no cover - the child's coverage is not collected
            signal.alarm(10)
            db.close()
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert db.sessions.append_message("s", user("still here")) == 0


def test_long_texts_are_indexed_a_few_at_a_time(engine: SqliteEngine, db: SessionDB) -> None:
    long = "needle " + "hay " * (MOST_CHARACTERS // 8)

    def add_and_index(tx: Transaction) -> int:
        for _ in range(6):
            insert_message(tx, "s", None, Columns("tool", long, None))
        assert index_batch(tx), "some are left"
        return int(tx.connection.execute("select count(*) from message_index_docsize").fetchone()[0])

    assert engine.write(add_and_index) == 2
    until(lambda: not engine.read(unindexed))
    assert len(db.search("needle")) == 6


def test_a_database_in_memory_keeps_the_same_promises() -> None:
    with SessionDB(":memory:") as db:
        db.create_session("s", source="cli")
        results = together(*(lambda n=n: db.sessions.append_message("s", user(f"word{n}")) for n in range(8)))
        assert sorted(results, key=str) == list(range(8))
        assert len(db.search("word3")) == 1
        assert db.check() == []
        assert SessionDB(":memory:").get_session("s") is None
