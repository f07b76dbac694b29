"""What only the PostgreSQL engine does: connect, be refused, lose its server, heal, and let go."""

import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import psycopg
import pytest

from holdfast.core.errors import (
    BackupRefused,
    ConnectionRefused,
    InvalidInput,
    OutcomeUnknown,
    SchemaTooNew,
    StoreBusy,
    StoreClosed,
    StoreReadOnly,
    StoreTooOld,
    StoreUnopenable,
    StoreUnreachable,
)
from holdfast.sessions import SessionDB, Transaction
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.postgres.schema import migrate
from tests.postgres_server import PASSWORD, PostgresServer, own_server
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import together, until, user

pytestmark = pytest.mark.slow  # starts a server of its own

DEADLINE = 60


@pytest.fixture
def place(postgres: str) -> Iterator[PostgresPlace]:
    """An empty schema on the server."""
    place = PostgresPlace(postgres)
    yield place
    place.drop()


@pytest.fixture
def db(place: PostgresPlace) -> Iterator[SessionDB]:
    """A store on the real clock."""
    with SessionDB.open(place.url) as db:
        yield db


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that a test may stop and start."""
    with own_server() as server:
        yield server


def child(role: str, url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.sessions.postgres_children", role, url],
        cwd=Path(__file__).resolve().parents[2],
        stderr=subprocess.PIPE,
        text=True,
    )


def refused(url: str, error: type[Exception], patience: float = DEADLINE) -> str:
    """What is said when a store can't be opened, with all its causes."""
    with pytest.raises(error) as caught:
        SessionDB.open(url, patience=patience)
    told = "".join(traceback.format_exception(caught.value, limit=0))
    assert "hush-hush" not in told
    assert PASSWORD not in told
    return str(caught.value)


# opening


def test_a_wrong_password_is_named_and_not_repeated(server: PostgresServer) -> None:
    said = refused(server.url.replace(PASSWORD, "hush-hush"), StoreUnopenable)
    assert "refused this user or password" in said
    said = refused(server.url.replace(f":{PASSWORD}", ""), StoreUnopenable)
    assert "asks for a password" in said


def test_a_missing_database_is_named(server: PostgresServer) -> None:
    said = refused(server.url.removesuffix("postgres") + "nowhere", StoreUnopenable)
    assert "/nowhere" in said
    assert "createdb" in said


def test_a_database_that_takes_nobody_now_is_unreachable_and_the_user_is_not_blamed(
    server: PostgresServer,
) -> None:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("create database shut allow_connections false")
        said = refused(server.url.removesuffix("postgres") + "shut", ConnectionRefused, patience=0.2)
        connection.execute("drop database shut")
    assert "not currently accepting connections" in said


def test_a_server_that_does_not_answer_is_unreachable() -> None:
    assert "Check that the server runs" in refused(
        "postgresql://me:hush-hush@127.0.0.1:1/x", StoreUnreachable
    )


def test_an_address_that_can_not_be_read_is_not_repeated() -> None:
    refused("postgresql://me:hush-hush%zz@host/database", InvalidInput)
    refused("postgresql://host/database?nonsense=hush-hush", InvalidInput)


def test_a_missing_driver_is_said_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg_pool", None)
    said = refused("postgresql://me:hush-hush@host/database", StoreUnopenable)
    assert "pip install 'holdfast-agent[postgres]'" in said


def test_a_schema_that_does_not_exist_is_named(postgres: str) -> None:
    assert "search_path" in refused(f"{postgres}?options=-csearch_path%3Dnowhere", StoreUnopenable)


def test_tables_of_another_program_are_left_alone(place: PostgresPlace) -> None:
    place.connection.execute("create table sessions (id int)")
    assert "another program" in refused(place.url, StoreUnopenable)
    tables = place.connection.execute(
        "select tablename from pg_tables where schemaname = current_schema()"
    ).fetchall()
    assert tables == [("sessions",)]


def test_a_newer_schema_is_left_alone(place: PostgresPlace) -> None:
    SessionDB.open(place.url).close()
    place.connection.execute("update meta set value = '9000.pre'")
    assert "9000.pre" in refused(place.url, SchemaTooNew)
    assert set(place.connection.execute("select value from meta")) == {("9000.pre",)}


def test_an_old_server_is_named() -> None:
    old: Any = SimpleNamespace(info=SimpleNamespace(server_version=130_009))
    with pytest.raises(StoreTooOld, match=r"PostgreSQL 13\.9 is too old: Holdfast needs 14"):
        migrate(old, "postgresql://host/database")


def test_many_processes_may_open_a_new_store_at_once(place: PostgresPlace) -> None:
    children = [child("open_only", place.url) for _ in range(6)]
    said = [each.communicate(timeout=DEADLINE)[1] for each in children]
    assert said == [""] * 6
    with SessionDB.open(place.url) as db:
        assert db.check() == []


def test_the_password_is_in_no_word_to_people(server: PostgresServer) -> None:
    with SessionDB.open(server.url) as db:
        assert db.location == f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        with pytest.raises(BackupRefused) as refusal:
            db.backup("copy.dump")
    assert (
        f"Run: pg_dump --dbname=postgres --host=127.0.0.1 --port={server.port} --username=postgres "
        "--format=custom --file=copy.dump" in str(refusal.value)
    )
    assert PASSWORD not in str(refusal.value)


# transactions


def test_a_commit_waits_for_the_disk_whatever_the_server_says(place: PostgresPlace) -> None:
    lazy = place.url.replace("options=", "options=-csynchronous_commit%3Doff%20")
    with SessionDB.open(lazy) as db:
        assert asked(db, "show synchronous_commit") == "on"
        assert asked(db, "show search_path") == place.schema


@pytest.mark.clause("N2")
def test_a_node_that_stands_still_in_a_transaction_lets_go_before_its_lease_runs_out(db: SessionDB) -> None:
    longest = (
        "select setting::float / 1000 from pg_settings where name = 'idle_in_transaction_session_timeout'"
    )
    assert 0 < asked(db, longest) < db.lease_seconds


def asked(db: SessionDB, query: str) -> Any:  # noqa: ANN401 - any column
    return db._engine.read(lambda tx: tx.connection.execute(query).fetchone()[0])  # noqa: SLF001 - its settings


def test_a_read_sees_one_snapshot_and_writes_nothing(place: PostgresPlace, db: SessionDB) -> None:
    db.create_session("one", source="test")

    def count(tx: Transaction) -> int:
        return int(tx.connection.execute("select count(*) from sessions").fetchone()[0])

    def work(tx: Transaction) -> tuple[int, int]:
        before = count(tx)
        place.connection.execute("insert into sessions (id, source, started) values ('two', 'test', 1)")
        return before, count(tx)

    assert db._engine.read(work) == (1, 1)  # noqa: SLF001 - the engine is under test
    with pytest.raises(StoreReadOnly):
        db._engine.read(lambda tx: tx.connection.execute("delete from sessions"))  # noqa: SLF001


def test_a_deadlock_is_run_again_by_itself(place: PostgresPlace) -> None:
    url = place.url.replace("options=", "options=-cdeadlock_timeout%3D10ms%20")
    engine = PostgresEngine(url, patience=30)
    db = SessionDB.on(engine)
    db.create_session("a", source="test")
    db.create_session("b", source="test")
    both, runs = threading.Barrier(2), []

    def lock(first: str, second: str) -> str:
        met = threading.Event()

        def work(tx: Transaction) -> str:
            runs.append(first)
            tx.queries.lock_session(id=first)
            if not met.is_set():
                met.set()
                both.wait(DEADLINE)
            tx.queries.lock_session(id=second)
            return first

        return engine.write(work)

    assert together(lambda: lock("a", "b"), lambda: lock("b", "a")) == ["a", "b"]
    assert len(runs) > 2  # one of them, or both, run again
    db.close()


def test_waiting_for_a_lock_ends_with_the_patience(place: PostgresPlace, db: SessionDB) -> None:
    db.create_session("s", source="test")
    with SessionDB.open(place.url, patience=0.2) as hasty:
        with place.connection.transaction():
            place.connection.execute("select 1 from sessions where id = 's' for update")
            with pytest.raises(StoreBusy, match=r"other processes locked .* for more than"):
                hasty.sessions.append_message("s", user("hello"))
        assert hasty.sessions.append_message("s", user("hello")) == 0


def test_waiting_for_a_connection_ends_with_the_patience(place: PostgresPlace) -> None:
    engine = PostgresEngine(place.url, patience=0.2, connections=1)
    entered, leave = threading.Event(), threading.Event()

    def work(_: Transaction) -> str:
        entered.set()
        leave.wait(DEADLINE)
        return "done"

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(engine.write, work)
        assert entered.wait(DEADLINE)
        with pytest.raises(StoreBusy):
            engine.read(lambda _: None)
        leave.set()
        assert first.result(DEADLINE) == "done"
    engine.close()


# a server that goes and comes


def test_a_restarted_server_is_found_again(server: PostgresServer) -> None:
    with SessionDB.open(server.url, patience=1) as db:
        db.create_session("before", source="test")
        together(*(lambda: db.get_session("before") for _ in range(4)))  # several idle connections
        server.stop()
        with pytest.raises(StoreUnreachable):
            db.create_session("meanwhile", source="test")
        with pytest.raises(StoreUnreachable):
            db.get_session("before")
        server.start()
        db.create_session("after", source="test")
        assert [db.get_session(name) is not None for name in ("before", "meanwhile", "after")] == [
            True,
            False,
            True,
        ]


def end_backend(place: PostgresPlace, tx: Transaction) -> None:
    """Cut the connection on the server's side, and wait until it is gone."""
    place.connection.execute("select pg_terminate_backend(%s, 30000)", (tx.connection.info.backend_pid,))


@pytest.mark.clause("N3")
def test_work_that_lost_its_connection_before_the_commit_is_run_again(
    place: PostgresPlace, db: SessionDB
) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.queries.insert_session(id="s", parent=None, relation=None, source="test", title=None, scope="")
        if len(runs) == 1:
            end_backend(place, tx)
        tx.queries.get_session(id="s")

    db._engine.write(work)  # noqa: SLF001 - the engine is under test
    assert len(runs) == 2
    assert db.get_session("s") is not None


@pytest.mark.clause("N3")
def test_a_commit_that_never_arrived_is_found_out_and_run_again(place: PostgresPlace, db: SessionDB) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.queries.insert_session(id="s", parent=None, relation=None, source="test", title=None, scope="")
        if len(runs) == 1:
            end_backend(place, tx)

    db._engine.write(work)  # noqa: SLF001 - the engine is under test
    assert len(runs) == 2
    assert db.get_session("s") is not None


@pytest.mark.clause("N3")
def test_a_commit_whose_answer_was_lost_is_found_out_and_not_run_again(server: PostgresServer) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> str:
        runs.append(1)
        tx.queries.insert_session(id="s", parent=None, relation=None, source="test", title=None, scope="")
        return "its result"

    with MuteProxy(server.port) as proxy:
        url = server.url.replace(str(server.port), str(proxy.port))
        engine = PostgresEngine(url, patience=10)
        try:
            proxy.is_mute = True
            assert engine.write(work) == "its result"
        finally:
            engine.close()
    with SessionDB.open(server.url) as db:
        assert db.get_session("s") is not None
        db.delete_session("s")
    assert len(runs) == 1


@pytest.mark.clause("N3")
def test_a_number_that_a_crashed_server_gives_again_is_not_taken_for_the_first(
    server: PostgresServer,
) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        """Its number is lost in a crash, and is that of another transaction before anybody asks for it."""
        runs.append(1)
        number = tx.connection.execute("select pg_current_xact_id()::text::bigint").fetchone()[0]
        server.crash()
        with psycopg.connect(server.url, autocommit=True) as other:
            given = 0
            while given < number:
                given = other.execute("select pg_current_xact_id()::text::bigint").fetchone()[0]  # type: ignore[index]

    engine = PostgresEngine(server.url, patience=10)
    try:
        with pytest.raises(OutcomeUnknown, match="not known"):
            engine.write(work)
    finally:
        engine.close()
    assert len(runs) == 1


@pytest.mark.clause("N3")
def test_a_commit_that_nobody_can_tell_about_is_not_run_again(server: PostgresServer) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        runs.append(1)
        tx.queries.insert_session(id="s", parent=None, relation=None, source="test", title=None, scope="")
        server.stop()

    engine = PostgresEngine(server.url, patience=0.5)
    try:
        with pytest.raises(OutcomeUnknown, match="not known"):
            engine.write(work)
    finally:
        server.start()
        engine.close()
    assert len(runs) == 1


class MuteProxy:
    """Passes everything on; when it is mute, it ends the first connection that commits without an answer."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.is_mute = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for way in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
                if self.is_mute and b"commit\0" in data:
                    self.is_mute = False
                    source.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)
        source.close()  # the other way closes the other one


# letting go


def test_closing_waits_for_a_call_in_progress_and_refuses_later_ones(place: PostgresPlace) -> None:
    engine = PostgresEngine(place.url, patience=DEADLINE)
    db = SessionDB.on(engine)
    db.create_session("s", source="test")
    entered, leave = threading.Event(), threading.Event()

    def work(tx: Transaction) -> None:
        entered.set()
        leave.wait(DEADLINE)
        tx.queries.rename_conversation(root="s", title="finished")

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(engine.write, work)
        assert entered.wait(DEADLINE)
        closing = pool.submit(engine.close)
        until(lambda: is_closed(db))
        assert not closing.done()
        leave.set()
        running.result(DEADLINE)
        closing.result(DEADLINE)
    engine.close()
    assert place.connection.execute("select title from sessions").fetchall() == [("finished",)]


def is_closed(db: SessionDB) -> bool:
    try:
        db.get_session("s")
    except StoreClosed:
        return True
    return False


@pytest.mark.parametrize("role", ["forget_to_close", "fork"])
def test_a_process_exits_cleanly_whatever_it_did_with_its_store(place: PostgresPlace, role: str) -> None:
    process = child(role, place.url)
    said = process.communicate(timeout=DEADLINE)[1]
    assert (process.returncode, said) == (0, "")
    with SessionDB.open(place.url) as db:
        assert db.get_session("in the child") is None
        assert db.check() == []


@pytest.mark.parametrize(("given", "idle"), [("", "10"), ("&keepalives_idle=77", "77")])
def test_a_server_that_vanishes_without_a_word_is_looked_after(
    place: PostgresPlace, given: str, idle: str
) -> None:
    with SessionDB.open(place.url + given) as db:
        settings = db._engine.read(lambda tx: tx.connection.info.get_parameters())  # noqa: SLF001
    assert settings["keepalives_idle"] == idle
    assert int(settings["tcp_user_timeout"]) > 0


@pytest.mark.parametrize(("connections", "served"), [(1, False), (2, True)])
def test_a_store_has_as_many_connections_as_it_is_opened_with(
    place: PostgresPlace, connections: int, served: bool
) -> None:
    with SessionDB.open(place.url, connections=connections, patience=0.5) as db:
        db.create_session("s", source="test")

        def while_another_reads(_: Transaction) -> bool:
            try:
                return db.get_session("s") is not None
            except StoreBusy:
                return False

        assert db._engine.read(while_another_reads) is served  # noqa: SLF001
