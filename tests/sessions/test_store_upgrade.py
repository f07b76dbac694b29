"""A store's schema is upgraded by a plan that says what waits, and serves programs of the version before."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast.cli.upgrade_view import plan_lines
from holdfast.core.errors import HoldfastError, InvalidInput, SchemaTooNew, SchemaTooOld, StoreUnopenable
from holdfast.sessions import SessionDB
from holdfast.sessions.migrations import Step, all_steps
from holdfast.sessions.upgrading import StoreUpgrade, UpgradePlan
from holdfast.sessions.upgrading.step_effects import effects_of
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import completed_turn, contents, user

NOW = all_steps("sqlite")[-1].number
NEXT, LATER = NOW + 1, NOW + 2
ADDED = Step(
    NEXT,
    0,
    f"""-- Turns get a mood, and moods a table. Who does not know of them leaves them empty.
-- serves: {NOW:04d}
alter table turns add column mood text;
create table moods (name text primary key);
create index moods_by_name on moods (name);
""",
    "moods",
)
REMOVED = Step(NEXT, 1, "alter table turns drop column reason;", "moods")
BREAKING = Step(LATER, 0, "alter table turns rename column mood to feeling;", "feelings")


class Place:
    """One store on one engine, with the program of this release and of a next one."""

    def __init__(self, engine: str, url: str) -> None:
        self.engine = engine
        self.url = url

    def upgrade(self, *more: Step) -> StoreUpgrade:
        """As the release does that has these steps too."""
        return StoreUpgrade(self.url, patience=5.0, steps=[*all_steps(self.engine), *more])

    def execute(self, statement: str) -> list[Any]:
        if self.engine == "sqlite":
            path = self.url.removeprefix("sqlite:///")
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                return connection.execute(statement).fetchall()
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def mark(self) -> dict[str, str]:
        keys = "('schema', 'oldest_program')"
        return dict(self.execute(f"select key, value from meta where key in {keys}"))  # noqa: S608


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place("sqlite", f"sqlite:///{tmp_path}/holdfast.db")
        return
    schema = PostgresPlace(request.getfixturevalue("postgres"))
    yield Place("postgres", schema.url)
    schema.drop()


def said(plan: UpgradePlan) -> str:
    return "\n".join(plan_lines(plan, is_done=False))


def names(plan: UpgradePlan) -> list[str]:
    return [planned.step.name for planned in plan.steps]


def test_a_plan_changes_nothing_and_names_each_step_with_what_waits_for_it(place: Place) -> None:
    SessionDB.open(place.url).close()
    before = place.mark()
    plan = place.upgrade(ADDED, BREAKING).plan()
    assert names(plan) == [ADDED.name, BREAKING.name]
    assert place.mark() == before
    text = said(plan)
    assert f"schema {NOW:04d}.pre; this program knows {BREAKING.name}" in text
    assert f"{ADDED.name} moods" in text
    assert "adds a column to turns (a short lock, no row is written)" in text
    assert "makes the table moods" in text
    assert "renames a part of turns" in text
    assert f"Stop every program that knows only schema {NOW:04d} first" in text


def test_an_upgrade_runs_what_the_plan_says(place: Place) -> None:
    SessionDB.open(place.url).close()
    assert names(place.upgrade(ADDED).run()) == [ADDED.name]
    assert place.mark() == {"schema": ADDED.name, "oldest_program": f"{NOW:04d}"}
    assert place.execute("select mood from turns") == []
    again = place.upgrade(ADDED).run()
    assert again.steps == []
    assert "up to date" in said(again)


def test_a_store_of_schema_4_is_upgraded_with_its_long_steps_named(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    upgrade = StoreUpgrade(f"sqlite:///{path}", patience=5.0, steps=all_steps("sqlite")[:4])
    path.touch()
    upgrade.run()
    text = said(StoreUpgrade(f"sqlite:///{path}", patience=5.0).plan())
    assert "0005.pre places\n    makes the table placed_messages\n    LONG: copies rows of messages" in text
    assert "schema 0004.pre" in text
    StoreUpgrade(f"sqlite:///{path}", patience=5.0).run()
    with SessionDB(path) as db:
        assert db.check() == []


@pytest.mark.clause("N4")
def test_a_program_of_the_version_before_works_beside_one_that_has_upgraded_the_store(place: Place) -> None:
    older = SessionDB.open(place.url)
    older.create_session("s", source="cli")
    turn = older.turns.open("s", user("asked before"))
    plan = place.upgrade(ADDED).plan()
    assert plan.is_rolling
    assert f"Programs of schema {NOW:04d} and later may go on meanwhile" in said(plan)
    place.upgrade(ADDED).run()
    # The one that was there goes on with its turn, and one of the same version may still be started.
    older.turns.complete(turn.id, {"role": "assistant", "content": "answered after"}, providers=["p"])
    place.execute("update turns set mood = 'calm'")
    with SessionDB.open(place.url) as started:
        assert contents(started.get_messages("s")) == ["asked before", "answered after"]
        assert len(started.outbox.claim("p", lease_seconds=5.0)) == 1
        completed_turn(started, "s")
        assert started.check() == []
    completed_turn(older, "s")
    assert older.delete_session("s", force=True).sessions == ("s",)
    older.close()
    assert place.mark()["schema"] == ADDED.name


@pytest.mark.clause("N4")
def test_a_store_that_no_longer_serves_a_program_refuses_it_with_the_reason(place: Place) -> None:
    SessionDB.open(place.url).close()
    place.upgrade(ADDED, BREAKING).run()
    with pytest.raises(SchemaTooNew, match=f"newer Holdfast .schema {BREAKING.name}"):
        SessionDB.open(place.url)
    with pytest.raises(SchemaTooNew):
        place.upgrade().plan()
    assert place.mark()["oldest_program"] == f"{LATER:04d}"


@pytest.mark.clause("N4")
def test_what_older_programs_use_is_removed_by_a_second_upgrade_only(place: Place) -> None:
    SessionDB.open(place.url).close()
    first = place.upgrade(ADDED, REMOVED)
    plan = first.plan()
    assert names(plan) == [ADDED.name]
    assert [planned.step.name for planned in plan.later] == [REMOVED.name]
    assert "left for a second" in said(plan)
    first.run()
    SessionDB.open(place.url).close()  # a program of the version before
    assert place.mark()["schema"] == ADDED.name
    second = place.upgrade(ADDED, REMOVED).run()
    assert names(second) == [REMOVED.name]
    assert f"Stop every program that knows only schema {NOW:04d}" not in said(second)
    assert place.mark() == {"schema": REMOVED.name, "oldest_program": f"{NEXT:04d}"}
    with pytest.raises(SchemaTooNew):
        SessionDB.open(place.url)


def test_a_release_after_the_next_runs_the_removal_before_its_own_steps(place: Place) -> None:
    SessionDB.open(place.url).close()
    place.upgrade(ADDED, REMOVED).run()
    assert names(place.upgrade(ADDED, REMOVED, BREAKING).run()) == [REMOVED.name, BREAKING.name]


def test_a_new_store_gets_every_half_at_once(place: Place) -> None:
    if place.engine == "sqlite":
        Path(place.url.removeprefix("sqlite:///")).touch()
    plan = place.upgrade(ADDED, REMOVED).run()
    assert names(plan)[0] == "0001.pre"
    assert place.mark()["schema"] == REMOVED.name
    assert "nothing uses it yet" in said(plan)


def test_a_store_that_is_too_old_is_refused_and_left_alone(place: Place) -> None:
    SessionDB.open(place.url).close()
    before = place.mark()
    with pytest.raises(SchemaTooOld, match=r"too old for this one .*a release in between"):
        StoreUpgrade(place.url, patience=5.0, steps=[BREAKING]).run()
    assert place.mark() == before


def test_an_older_program_does_not_move_a_newer_store(place: Place, tmp_path: Path) -> None:
    SessionDB.open(place.url).close()
    place.upgrade(ADDED).run()
    with SessionDB.open(place.url) as old, SessionDB(tmp_path / "new.db") as new:
        with pytest.raises(SchemaTooNew):
            old.move_to(new)
        with pytest.raises(SchemaTooNew):
            new.move_to(old)
        old.create_session("s", source="cli")


def test_a_step_that_fails_leaves_the_schema_as_it_was(place: Place) -> None:
    SessionDB.open(place.url).close()
    before = place.mark()
    broken = Step(LATER, 0, "alter table nowhere add column x text;", "broken")
    with pytest.raises(HoldfastError):
        place.upgrade(ADDED, broken).run()
    assert place.mark() == before
    with SessionDB.open(place.url) as db:
        assert db.check() == []


def test_the_plan_names_the_programs_that_are_connected(postgres: str) -> None:
    schema = PostgresPlace(postgres)
    with SessionDB.open(schema.url) as db:
        db.create_session("s", source="cli")
        plan = StoreUpgrade(schema.url, patience=5.0).plan()
        assert plan.connected[f"holdfast {NOW:04d}.pre"] >= 1
        assert f"of 'holdfast {NOW:04d}.pre'" in said(plan)
    schema.drop()


def test_there_must_be_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnopenable, match="no such file"):
        StoreUpgrade(f"sqlite:///{tmp_path}/none.db", patience=1.0).plan()
    assert not list(tmp_path.iterdir())
    with pytest.raises(InvalidInput, match="mysql://"):
        StoreUpgrade("mysql://host/db", patience=1.0)


@pytest.mark.parametrize(
    ("engine", "sql", "expected", "is_long"),
    [
        ("postgres", "create index i on messages (role);", "writes to messages wait", True),
        ("sqlite", "create unique index i on messages (role);", "all writes wait", True),
        (
            "postgres",
            "alter table t add column x text generated always as (y) stored;",
            "every row anew",
            True,
        ),
        ("sqlite", "alter table t add column x text;", "no row is written", False),
        ("postgres", "update sessions set root = id;", "changes rows of sessions", True),
        ("postgres", "with a as (select 1) update turns set x = 1;", "changes rows of turns", True),
        ("postgres", "delete from asks;", "deletes rows of asks", True),
        ("postgres", "alter table t add constraint c check (x > 0);", "checks every row of t", True),
        ("postgres", "drop table t;", "removes the table t", False),
        (
            "sqlite",
            "create trigger x after insert on t begin update u set a = 1; end;",
            "trigger to t",
            False,
        ),
        ("postgres", "insert into n (a) select a from messages;", "copies rows of messages", True),
    ],
)
def test_what_a_statement_does_is_told_from_it(engine: str, sql: str, expected: str, is_long: bool) -> None:
    (effect,) = effects_of(engine, f"-- update nothing;\n{sql}")
    assert expected in effect.what
    assert effect.is_long is is_long


def test_a_function_is_no_change_of_a_table() -> None:
    function = (
        "create function f() returns trigger language plpgsql as $x$ begin update t set a = 1; end $x$;"
    )
    assert effects_of("postgres", function) == []
