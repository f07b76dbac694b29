"""The second wall between accounts: PostgreSQL itself leaves out what a limited read may not see."""

import asyncio
import logging
import secrets
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from holdfast.core.errors import StoreFault
from holdfast.host.store_calls import StoreCalls, limit_reads
from holdfast.process import DaemonPool
from holdfast.sessions import SessionDB, Transaction
from holdfast.sessions.postgres.row_security import HIDDEN, ROLE
from holdfast.sessions.read_limit import reads_limited_to
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import completed_turn, user

ANN, BOB = "user/ann", "user/bob"
OPEN = {
    "meta": "the schema's version",
    "leases": "who runs a conversation, without a word of it",
    "folders": "names that the owner gave; no route of an account reads them",
    "own_prompts": "texts of the owner; no route of an account reads them",
    "forgettings": "records without content; no route of an account reads those of others",
    "forgetting_tasks": "what a provider has done about such a record",
    "forgotten_turns": "keys of turns without content",
    "schedule_runs": "when a schedule ran, without its text",
    "chat_people": "names on chat platforms; no route of an account reads them",
    "chat_parts": "parts of posts, found by their post",
    "deleted_turns": "what counts for a limit, without content",
}
"""Tables without a policy that a limited read may see, and why that is enough."""


@pytest.fixture
def place(postgres: str) -> Iterator[PostgresPlace]:
    place = PostgresPlace(postgres)
    yield place
    place.drop()


@pytest.fixture
def db(place: PostgresPlace) -> Iterator[SessionDB]:
    """A store with a conversation of each of two accounts, and one of the owner."""
    with SessionDB.open(place.url) as db:
        for name, scope in (("anns", ANN), ("bobs", BOB), ("own", "")):
            db.create_session(name, source="web", scope=scope)
            completed_turn(db, name, f"a secret of {name}", providers=["p"])
            db.inbox.put(name, user(f"waiting for {name}"), mode="queue", key=f"key of {name}")
        yield db


def test_a_limited_read_finds_its_own_scope_alone_whatever_it_asks_for(db: SessionDB) -> None:
    turn = db.turns.open("bobs", user("more"))
    with reads_limited_to(ANN):
        assert [each["content"] for each in db.get_messages("anns")][:1] == ["a secret of anns"]
        assert db.get_messages("bobs") == []
        assert db.get_session("bobs") is None
        assert [each.session.id for each in db.conversations.list(scope=None)] == ["anns"]
        assert {hit.session_id for hit in db.search("secret")} == {"anns"}
        assert db.inbox.waiting("bobs") == []
        assert db.inbox.by_key("key of bobs") is None
        assert db.inbox.sessions() == ["anns"]
        assert db.turns.get(turn.id) is None
        assert db.sessions.uncommitted() == ["anns"]
        assert db.sessions.scopes(["anns", "bobs", "own"]) == {"anns": ANN}


def test_a_read_after_a_limited_one_sees_everything_again_also_after_a_failure(db: SessionDB) -> None:
    def fail(tx: Transaction) -> None:
        tx.connection.execute("select no_such_column from sessions")

    for _ in range(3):
        with pytest.raises(StoreFault), reads_limited_to(ANN):
            db._engine.read(fail)  # noqa: SLF001 - what no public read does
        with reads_limited_to(BOB):
            assert db.get_messages("anns") == []
        assert len(db.get_messages("anns")) == len(db.get_messages("bobs")) == 2


def test_the_owners_scope_is_no_limit(db: SessionDB) -> None:
    with reads_limited_to(""):
        assert len(db.get_messages("anns")) == len(db.get_messages("own")) == 2


def test_each_table_has_a_policy_or_a_reason_for_none_or_is_hidden(
    place: PostgresPlace, db: SessionDB
) -> None:
    with reads_limited_to(ANN):
        db.get_session("anns")  # the role is made by the first
    rows = place.connection.execute(
        "select relname, relrowsecurity, has_table_privilege(%s, oid, 'select') from pg_class"
        " where relnamespace = current_schema()::regnamespace and relkind = 'r'",
        (ROLE,),
    ).fetchall()
    seen = {name for name, _, is_granted in rows if is_granted}
    walled = {name for name, is_walled, _ in rows if is_walled}
    assert not seen & set(HIDDEN)
    assert seen - walled == OPEN.keys() & {name for name, _, _ in rows}, "a new table needs one of the three"
    assert "messages" in walled


def test_no_row_of_another_scope_is_in_any_table_with_a_policy(place: PostgresPlace, db: SessionDB) -> None:
    with reads_limited_to(ANN):
        db.get_session("anns")
    walled = place.connection.execute(
        "select tablename from pg_policies where schemaname = current_schema() and policyname = 'one_scope'"
    ).fetchall()
    assert walled
    with psycopg.connect(place.url) as reached:
        reached.execute("select set_config('holdfast.scope', %s, false)", (ANN,))
        reached.execute(f"set role {ROLE}")
        for (table,) in walled:
            rows = str(reached.execute(f"select * from {table}").fetchall())  # noqa: S608 - the schema's own name
            assert "bobs" not in rows
            assert "'own'" not in rows


def test_a_limited_read_can_not_write(place: PostgresPlace, db: SessionDB) -> None:
    with reads_limited_to(ANN):
        db.get_session("anns")
    with psycopg.connect(place.url) as reached:
        reached.execute(f"set role {ROLE}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reached.execute("delete from messages")


@pytest.fixture
def program(place: PostgresPlace) -> Iterator[str]:
    """The address of the schema for a role of the program's own that is no superuser, and owns the schema."""
    name = f"program_{secrets.token_hex(6)}"
    place.connection.execute(f"create role {name} login password 'word'")
    place.connection.execute(f"alter schema {place.schema} owner to {name}")
    parts = urlsplit(place.url)
    yield urlunsplit(parts._replace(netloc=f"{name}:word@{parts.hostname}:{parts.port}"))
    place.connection.execute(f"drop owned by {name} cascade")
    place.connection.execute(f"drop role {name}")
    place.connection.execute(f"create schema {place.schema}")


def test_a_program_that_may_not_take_on_the_role_goes_without_the_wall_and_says_how_to_get_it(
    place: PostgresPlace, program: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), SessionDB.open(program) as db:
        db.create_session("anns", source="web", scope=ANN)
        db.create_session("bobs", source="web", scope=BOB)
        with reads_limited_to(ANN):
            assert db.get_session("bobs") is not None
            assert db.get_session("anns") is not None
    (said,) = [each for each in caplog.records if each.message == "store.row_security_is_off"]
    assert f"grant {ROLE} to" in said.__dict__["next"]
    with psycopg.connect(place.url) as administrator:
        if administrator.execute("select 1 from pg_roles where rolname = %s", (ROLE,)).fetchone() is None:
            administrator.execute(f"create role {ROLE}")
        administrator.execute(f"grant {ROLE} to {urlsplit(program).username}")
    with SessionDB.open(program) as db:
        with reads_limited_to(ANN):
            assert db.get_session("bobs") is None
            assert db.get_session("anns") is not None
        assert db.get_session("bobs") is not None


def test_a_role_that_does_not_own_the_tables_works_as_before(place: PostgresPlace, db: SessionDB) -> None:
    name = f"other_{secrets.token_hex(6)}"
    place.connection.execute(f"create role {name}")
    place.connection.execute(f"grant usage on schema {place.schema} to {name}")
    place.connection.execute(f"grant select, insert on all tables in schema {place.schema} to {name}")
    with psycopg.connect(place.url) as reached:
        reached.execute(f"set role {name}")
        assert reached.execute("select count(*) from sessions").fetchone() == (3,)
        reached.execute("insert into folders (name, created) values ('f', 1)")
        reached.execute(
            "insert into conversation_choices (root, model) select id, 'm' from sessions where id = 'anns'"
        )
    place.connection.execute(f"drop owned by {name}")
    place.connection.execute(f"drop role {name}")


def test_only_the_task_that_is_limited_reads_so_and_no_task_that_it_starts(db: SessionDB) -> None:
    async def scenario() -> None:
        pool = DaemonPool("test", workers=2, backlog=10)
        call = StoreCalls(db, pool)
        with limit_reads(ANN):
            assert await call(db.get_messages, "bobs") == []
            assert len(await call(db.get_messages, "anns")) == 2
            begun = asyncio.create_task(call(db.get_messages, "bobs"))
            assert len(await begun) == 2
        assert len(await call(db.get_messages, "bobs")) == 2
        pool.close(1)

    asyncio.run(scenario())
