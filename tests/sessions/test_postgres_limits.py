"""A server that takes no more connections: said in its words, waited for, not blamed on the password."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.core.errors import ConnectionRefused, StoreBusy, StoreUnopenable, StoreUnreachable
from holdfast.sessions import SessionDB
from holdfast.sessions.postgres.address import Address
from holdfast.sessions.postgres.connections import Connections
from holdfast.testing.clock import FakeClock
from tests.postgres_server import PASSWORD, PostgresServer, own_server
from tests.sessions.store_fixtures import contents, until, user

pytestmark = pytest.mark.slow  # starts a server of its own

DEADLINE = 60
HASTY = 0.3
OTHERS = (
    "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()"
)
FEW = ("max_connections=6", "superuser_reserved_connections=2")
WRONG = 'FATAL:  password authentication failed for user "busy"'
LIMITS = {
    "role": ("alter role busy connection limit 1", "alter role busy connection limit -1"),
    "database": ("alter database its connection limit 1", "alter database its connection limit -1"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that takes six connections, two of them from superusers alone."""
    with own_server(*FEW) as server:
        yield server


@pytest.fixture
def admin(server: PostgresServer) -> Iterator[psycopg.Connection]:
    """With a role and a database of its own, which start without a limit."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"create role busy login password '{PASSWORD}'")
        connection.execute("create database its owner busy")
        yield connection
        until(lambda: connection.execute(OTHERS).fetchone() == (0,))
        connection.execute("drop database its with (force)")
        connection.execute("drop role busy")


@pytest.fixture
def url(server: PostgresServer, admin: psycopg.Connection) -> str:
    del admin
    return f"postgresql://busy:{PASSWORD}@127.0.0.1:{server.port}/its"


def said_at_start(url: str) -> str:
    with pytest.raises(ConnectionRefused) as refused:
        SessionDB.open(url, patience=HASTY)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("kind", LIMITS)
def test_a_connection_limit_is_said_at_the_start_and_waited_for(
    kind: str, url: str, admin: psycopg.Connection
) -> None:
    SessionDB.open(url).close()
    limit, no_limit = LIMITS[kind]
    with psycopg.connect(url), ThreadPoolExecutor(1) as pool:
        admin.execute(limit)
        told = said_at_start(url)
        assert "too many connections for" in told
        assert "max_connections" in told
        opened = pool.submit(lambda: SessionDB.open(url, patience=DEADLINE))
        admin.execute(no_limit)
        opened.result(DEADLINE).close()


def test_slots_kept_for_superusers_are_said_at_the_start(url: str) -> None:
    with psycopg.connect(url), psycopg.connect(url), psycopg.connect(url):
        told = said_at_start(url)
    assert "reserved" in told
    assert "max_connections" in told


def test_a_server_that_is_full_is_said_at_the_start_and_waited_for(server: PostgresServer, url: str) -> None:
    taken = [psycopg.connect(server.url) for _ in range(5)]
    try:
        with ThreadPoolExecutor(1) as pool:
            told = said_at_start(url)
            assert "too many clients" in told
            assert "max_connections" in told
            opened = pool.submit(lambda: SessionDB.open(url, patience=DEADLINE))
            for each in taken:
                each.close()
            opened.result(DEADLINE).close()
    finally:
        for each in taken:
            each.close()


def test_a_wrong_password_is_said_at_once_also_where_the_role_has_a_limit(
    url: str, admin: psycopg.Connection
) -> None:
    admin.execute("alter role busy connection limit 0")
    with pytest.raises(StoreUnopenable, match="refused this user or password"):
        SessionDB.open(url.replace(PASSWORD, "wrong"), patience=DEADLINE)


def test_a_store_that_runs_goes_on_with_the_connection_that_it_has(
    url: str, admin: psycopg.Connection
) -> None:
    with SessionDB.open(url, patience=3, connections=2) as db:
        db.create_session("s", source="test")
        admin.execute("alter role busy connection limit 1")
        db.sessions.append_message("s", user("first"))
        admin.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = 'busy'")
        admin.execute("alter role busy connection limit 0")
        until(lambda: _refused(db))
        admin.execute("alter role busy connection limit -1")
        db.sessions.append_message("s", user("second"))
        assert contents(db.get_messages("s")) == ["first", "second"]


def test_a_user_without_the_right_to_connect_is_told_so_at_once(url: str, admin: psycopg.Connection) -> None:
    with SessionDB.open(url, patience=3) as db:
        admin.execute("alter database its owner to postgres")
        admin.execute("revoke connect on database its from public")
        admin.execute("select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = 'busy'")
        with pytest.raises(StoreUnreachable, match="may not connect to the database"):
            db.create_session("lost", source="test")
        with pytest.raises(StoreUnopenable, match="may not connect to the database"):
            SessionDB.open(url, patience=DEADLINE)
        admin.execute("grant connect on database its to busy")
        db.create_session("s", source="test")


@pytest.fixture
def narrow(server: PostgresServer, url: str, admin: psycopg.Connection) -> Iterator[None]:
    """The server lets everybody into its database for maintenance, and nobody into another one."""
    rules = server.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host postgres all 127.0.0.1/32 scram-sha-256\n")
    admin.execute("select pg_reload_conf()")
    # The server reads its rules anew a moment after it was told to.
    until(lambda: not _is_let_in(url))
    yield
    rules.write_text(before)
    admin.execute("select pg_reload_conf()")
    until(lambda: _is_let_in(url))


@pytest.mark.usefixtures("narrow")
def test_a_user_whom_the_rules_let_into_another_database_only_is_told_so_at_once(url: str) -> None:
    with pytest.raises(StoreUnopenable, match=r"into another database, not into this one.*pg_hba\.conf"):
        SessionDB.open(url, patience=DEADLINE)


def _is_let_in(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


def test_one_search_for_the_cause_serves_all_calls_for_a_while(
    server: PostgresServer, url: str, admin: psycopg.Connection
) -> None:
    admin.execute("alter role busy connection limit 0")
    clock = FakeClock()
    connections = Connections(Address.parse(url), HASTY, 2, clock)

    def refused() -> bool:
        try:
            with connections.borrowed():
                return False
        except StoreBusy:  # no attempt has ended yet
            return False
        except ConnectionRefused as error:
            return "too many connections" in str(error)

    def wrong_ones() -> int:
        logs = (server.folder / "data" / "log").glob("*")
        return sum(log.read_text().count(WRONG) for log in logs)

    earlier = wrong_ones()
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: until(refused), range(6)))
        until(lambda: wrong_ones() > earlier)
        clock.advance(60)
        until(refused)
        until(lambda: wrong_ones() >= earlier + 2)
        assert wrong_ones() == earlier + 2
    finally:
        connections.close(DEADLINE)


def _refused(db: SessionDB) -> bool:
    try:
        db.sessions.append_message("s", user("lost"))
    except ConnectionRefused as error:
        return "too many connections" in str(error) and "max_connections" in str(error)
    return False
