"""A standby takes the place of its primary: it is found by the address, and no outcome is assumed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from holdfast.core.errors import OutcomeUnknown, StoreReadOnly
from holdfast.sessions import SessionDB, Transaction
from holdfast.sessions.postgres import PostgresEngine
from tests.postgres_server import PASSWORD, PostgresServer, own_server
from tests.postgres_standby import Standby, standby_of
from tests.sessions.store_fixtures import contents, until, user

pytestmark = pytest.mark.slow  # starts two servers

DEADLINE = 60
IS_FOLLOWED = "select count(*) from pg_stat_replication where sync_state = 'sync'"
WAITS_FOR_IT = "alter system set synchronous_standby_names = '*'"
NEXT_NUMBER = "select pg_current_xact_id()::text::bigint"


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with own_server() as server:
        yield server


@pytest.fixture
def standby(primary: PostgresServer) -> Iterator[Standby]:
    """A standby that has each commit before it is acknowledged."""
    with standby_of(primary) as standby:
        with psycopg.connect(primary.url, autocommit=True) as admin:
            admin.execute(WAITS_FOR_IT)
            admin.execute("select pg_reload_conf()")
            until(lambda: admin.execute(IS_FOLLOWED).fetchone() == (1,))
        yield standby


@pytest.fixture
def both(primary: PostgresServer, standby: Standby) -> str:
    """The address that docs/postgres.md shows: two hosts, of which the one that can be written is meant."""
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    return f"postgresql://postgres:{PASSWORD}@{hosts}/postgres?target_session_attrs=read-write"


def promote(standby: Standby) -> None:
    standby.promote()
    with psycopg.connect(standby.url, autocommit=True) as admin:
        # It has no standby of its own to wait for.
        admin.execute("alter system reset synchronous_standby_names")
        admin.execute("select pg_reload_conf()")


@pytest.mark.clause("N3", "D1")
def test_a_promoted_standby_is_found_and_has_all_that_was_acknowledged(
    primary: PostgresServer, standby: Standby, both: str
) -> None:
    with SessionDB.open(both, patience=DEADLINE) as db, ThreadPoolExecutor(2) as pool:
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        assert db.location == f"postgresql://postgres@{hosts}/postgres"
        db.create_session("s", source="test")
        for number in range(20):
            db.sessions.append_message("s", user(f"before {number}"))
        primary.kill()
        meanwhile = pool.submit(lambda: db.sessions.append_message("s", user("meanwhile")))
        opened = pool.submit(lambda: SessionDB.open(both, patience=DEADLINE))
        promote(standby)
        meanwhile.result(2 * DEADLINE)
        db.sessions.append_message("s", user("after"))
        expected = [*(f"before {number}" for number in range(20)), "meanwhile", "after"]
        assert contents(db.get_messages("s")) == expected
        with opened.result(2 * DEADLINE) as other:
            assert contents(other.get_messages("s")) == expected
            assert other.check() == []


@pytest.mark.clause("N3")
def test_the_outcome_of_a_commit_that_the_failover_cut_off_is_not_believed_from_another_history(
    primary: PostgresServer, standby: Standby, both: str
) -> None:
    runs: list[int] = []

    def work(tx: Transaction) -> None:
        """Its number is that of another transaction on the new primary before anybody asks for it."""
        runs.append(1)
        tx.queries.insert_session(id="cut", parent=None, relation=None, source="test", title=None, scope="")
        number = tx.connection.execute(NEXT_NUMBER).fetchone()[0]
        primary.kill()
        promote(standby)
        with psycopg.connect(standby.url, autocommit=True) as other:
            given = 0
            while given < number:
                given = other.execute(NEXT_NUMBER).fetchone()[0]  # type: ignore[index]

    engine = PostgresEngine(both, patience=DEADLINE)
    with SessionDB.on(engine) as db:
        db.create_session("before", source="test")
        with pytest.raises(OutcomeUnknown, match="not known"):
            engine.write(work)
        assert len(runs) == 1
        assert db.get_session("cut") is None
        assert db.get_session("before") is not None
        db.create_session("after", source="test")


def test_a_standby_is_read_and_refuses_writes_until_it_is_promoted(
    primary: PostgresServer, standby: Standby
) -> None:
    with SessionDB.open(primary.url) as db:
        db.create_session("s", source="test")
        db.sessions.append_message("s", user("before"))
    with psycopg.connect(standby.url, autocommit=True) as follower:
        until(lambda: follower.execute("select to_regclass('messages')").fetchone() != (None,))
        until(lambda: follower.execute("select count(*) from messages").fetchone() == (1,))
    with SessionDB.open(standby.url) as db:
        assert contents(db.get_messages("s")) == ["before"]
        with pytest.raises(StoreReadOnly, match="standby"):
            db.sessions.append_message("s", user("lost"))
        primary.kill()
        promote(standby)
        db.sessions.append_message("s", user("after"))
        assert contents(db.get_messages("s")) == ["before", "after"]
