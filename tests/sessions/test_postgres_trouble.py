"""A server that cancels statements, can't be written or has a full disk: named, and gone on with."""

import os
import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.core.errors import (
    DiskFull,
    HoldfastError,
    StatementCancelled,
    StoreBusy,
    StoreReadOnly,
    StoreUnreachable,
)
from holdfast.sessions import SessionDB, Transaction
from holdfast.sessions.postgres import PostgresEngine
from tests.postgres_server import PASSWORD, PostgresServer, own_server
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import contents, user

pytestmark = pytest.mark.slow  # starts a server of its own

SMALL = "64m"
ENOUGH = 2 * 2**20


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def place(server: PostgresServer) -> Iterator[PostgresPlace]:
    """An empty schema, and a role for the store that a test gives settings."""
    place = PostgresPlace(server.url)
    place.connection.execute(f"create role limited login superuser password '{PASSWORD}'")
    yield place
    place.connection.execute("drop owned by limited cascade")
    place.connection.execute("drop role limited")
    place.drop()


@pytest.fixture
def url(place: PostgresPlace) -> str:
    return place.url.replace("//postgres:", "//limited:")


def sleep(tx: Transaction) -> None:
    tx.connection.execute("select pg_sleep(60)")


def half_done(tx: Transaction) -> None:
    tx.queries.insert_session(id="half", parent=None, relation=None, source="test", title=None, scope="")
    sleep(tx)


def test_a_time_limit_for_statements_is_named_and_the_store_goes_on(place: PostgresPlace, url: str) -> None:
    SessionDB.open(url).close()
    place.connection.execute("alter role limited set statement_timeout = '2s'")
    engine = PostgresEngine(url, patience=30)
    with SessionDB.on(engine) as db:
        db.create_session("s", source="test")
        for run, work in ((engine.write, half_done), (engine.read, sleep)):
            with pytest.raises(StatementCancelled, match="statement timeout") as refused:
                run(work)
            assert "locked" not in str(refused.value)
        assert db.get_session("half") is None
        db.sessions.append_message("s", user("goes on"))
        assert contents(db.get_messages("s")) == ["goes on"]


def test_a_time_limit_for_transactions_leaves_nothing_and_the_store_goes_on(
    place: PostgresPlace, url: str
) -> None:
    if place.connection.info.server_version < 170_000:
        pytest.skip("this server has no transaction_timeout")
    SessionDB.open(url).close()
    place.connection.execute("alter role limited set transaction_timeout = '2s'")
    engine = PostgresEngine(url, patience=3)
    with SessionDB.on(engine) as db:
        db.create_session("s", source="test")
        # The server ends the connection; its last words may be lost with it.
        with pytest.raises((StatementCancelled, StoreUnreachable)):
            engine.write(half_done)
        assert db.get_session("half") is None
        db.sessions.append_message("s", user("goes on"))
        assert contents(db.get_messages("s")) == ["goes on"]


def test_a_statement_that_an_administrator_cancels_is_named_and_the_store_goes_on(
    place: PostgresPlace, url: str
) -> None:
    engine = PostgresEngine(url, patience=30)
    with SessionDB.on(engine) as db:

        def work(tx: Transaction) -> None:
            tx.connection.execute("select pg_cancel_backend(pg_backend_pid()), pg_sleep(60)")

        with pytest.raises(StatementCancelled, match="user request"):
            engine.write(work)
        db.create_session("s", source="test")
        assert db.get_session("s") is not None


def test_a_lock_that_another_program_holds_is_named_and_the_store_goes_on(
    place: PostgresPlace, url: str
) -> None:
    with SessionDB.open(url, patience=2) as db:
        db.create_session("s", source="test")
        with place.connection.transaction():
            place.connection.execute("lock table messages in access exclusive mode")
            for call in (
                lambda: db.sessions.append_message("s", user("waits")),
                lambda: db.get_messages("s"),
            ):
                with pytest.raises(StoreBusy, match="other processes locked"):
                    call()
        db.sessions.append_message("s", user("goes on"))
        assert contents(db.get_messages("s")) == ["goes on"]


def test_a_database_that_is_set_to_read_only_is_read_and_goes_on_when_it_can_be_written(
    place: PostgresPlace, url: str
) -> None:
    with SessionDB.open(url) as db:
        db.create_session("s", source="test")
    place.connection.execute("alter role limited set default_transaction_read_only = on")
    with SessionDB.open(url) as db:
        assert db.get_session("s") is not None
        for call in (lambda: db.sessions.append_message("s", user("lost")), db.leases.require_writable):
            with pytest.raises(StoreReadOnly, match="standby or set to read only"):
                call()
        place.connection.execute("alter role limited reset default_transaction_read_only")
        place.connection.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = 'limited'"
        )
        db.sessions.append_message("s", user("goes on"))
        assert contents(db.get_messages("s")) == ["goes on"]


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A small file system on which the server may write."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=0777", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("needs the right to mount a file system")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


@pytest.mark.clause("D12")
def test_a_full_disk_of_the_server_is_named_keeps_what_was_written_and_is_gone_on_with(
    small_disk: Path, server: PostgresServer
) -> None:
    space = small_disk / "space"
    space.mkdir()
    os.chown(space, pwd.getpwnam("nobody").pw_uid, -1)
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"create tablespace small location '{space}'")
        admin.execute("create database small tablespace small")
        try:
            fill_and_go_on(urlsplit(server.url)._replace(path="/small").geturl(), small_disk)
        finally:
            admin.execute("drop database small with (force)")
            admin.execute("drop tablespace small")


def fill_and_go_on(url: str, disk: Path) -> None:
    with SessionDB.open(url) as db:
        db.create_session("s", source="test")
        ballast = disk / "ballast"
        free = os.statvfs(disk)
        ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - ENOUGH))
        written, refused = 0, None
        while refused is None:
            try:
                db.sessions.append_message("s", user(f"{written} {os.urandom(20_000).hex()}"))
                written += 1
            except HoldfastError as error:
                refused = error
        assert isinstance(refused, DiskFull), refused
        assert "Free some space" in str(refused)
        assert len(db.get_messages("s")) == written > 0
        ballast.unlink()
        db.sessions.append_message("s", user("there is space again"))
        assert len(db.get_messages("s")) == written + 1
        assert db.check() == []
