"""A store moves to another database whole, in steps that can be gone on with, while the old one is read."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, StoreReadOnly
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import Engine
from holdfast.sessions.moving import StoreMove
from holdfast.sessions.moving import store_move as steps
from holdfast.sessions.moving.moved_tables import TABLES
from holdfast.sessions.postgres import PostgresEngine
from holdfast.sessions.schedules import NewSchedule
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing.faults import CrashingEngine, ProcessDied
from tests.sessions.chat_fixtures import received_chat, turn_of_chat
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import completed_turn, user

MANY = steps.BATCH + 200


@pytest.fixture
def url(postgres: str) -> Iterator[str]:
    place = PostgresPlace(postgres)
    yield place.url
    place.drop()


def sqlite_engine(path: Path) -> Engine:
    return SqliteEngine(str(path), clock=SystemClock(), patience=5.0)


def postgres_engine(url: str) -> Engine:
    return PostgresEngine(url, patience=10.0)


def fill(db: SessionDB, messages: int = 3) -> None:
    """Something in most tables, with parents after their children by name, and text of every kind."""
    db.create_session("z", source="cli", title="Ünïcode 🦀 \t\n\\N")
    for number in range(messages):
        db.sessions.append_message("z", user(f"message {number} \\. 'quoted' \"twice\" \u2028"))
    db.create_session("a", source="cli", parent="z", relation="branch")
    db.create_session("s", source="chat", scope="somebody")
    completed_turn(db, "z", providers=["p", "q"])
    db.inbox.put("a", user("waits"), key="key")
    chat = received_chat(db, "1", "2", "3")
    db.turns.complete(turn_of_chat(db, chat), {"role": "assistant", "content": "answered"}, providers=[])
    db.schedules.add(NewSchedule("look", "every 2 hours", "UTC", "z"))
    made = db.users.create("Ada", daily_turns=3)
    db.users.issue_token(made.id, "phone", 60)
    db.users.link_identity(made.id, "https://sso", "ada")
    db.users.invite("guest", 60)
    db.choices.put_folder("work", "/w")
    db.choices.put_prompt("again", "do it again")
    db.choices.choose("z", model="m", folder="work")
    db.conversations.set_tool_profile("z", "small")


def same(one: Engine, other: Engine) -> None:
    """Both stores have the same rows, read from each."""
    for table in TABLES:
        found = [engine.read(partial(table.rows_after, place=(), most=10 * MANY)) for engine in (one, other)]
        assert sorted(map(repr, found[0])) == sorted(map(repr, found[1])), table.name


@pytest.mark.clause("N1", "D1")
def test_a_store_moves_to_postgresql_and_back_with_everything_and_goes_on_there(
    url: str, tmp_path: Path
) -> None:
    first, middle, last = (
        sqlite_engine(tmp_path / "first.db"),
        postgres_engine(url),
        sqlite_engine(tmp_path / "last.db"),
    )
    with SessionDB.on(first) as old, SessionDB.on(middle) as new, SessionDB.on(last) as back:
        fill(old, MANY)
        told: list[str] = []
        moved = old.move_to(new, lambda what, *_: told.append(what))
        assert moved["messages"].count > MANY
        assert {"messages", "checking messages"} <= set(told)
        same(first, middle)
        assert new.check() == []
        assert [hit.session_id for hit in new.search("message 7")][:1] == ["z"]
        # Numbers go on after the highest, and what waited is there.
        waiting = new.inbox.waiting("a")[0]
        assert new.inbox.put("a", user("next")).id > waiting.id
        new.sessions.append_message("z", user("one more"))
        new.move_to(back)
        same(middle, last)
        assert back.check() == []
        assert [each.message["content"] for each in back.inbox.waiting("a")] == ["waits", "next"]
        assert back.search("one more")


def test_every_table_is_moved(url: str, tmp_path: Path) -> None:
    """A table that a later migration adds must get its place in the list."""
    with SessionDB.on(postgres_engine(url)) as db:
        rows = db._engine.read(  # noqa: SLF001
            lambda tx: tx.connection.execute(
                "select tablename from pg_tables where schemaname = current_schema()"
            ).fetchall()
        )
    assert {row[0] for row in rows} == {table.name for table in TABLES} | {"meta"}


WAYS = ("sqlite to sqlite", "sqlite to postgres", "postgres to sqlite")


@pytest.fixture
def ends(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Engine, Engine]:
    """The engines of an old and a new store; both are open."""

    def engine(kind: str, name: str) -> Engine:
        return (
            postgres_engine(request.getfixturevalue("url"))
            if kind == "postgres"
            else sqlite_engine(tmp_path / name)
        )

    source, target = request.param.split(" to ")
    return engine(source, "first.db"), engine(target, "last.db")


@pytest.mark.parametrize("ends", WAYS, indirect=True)
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_move_that_is_killed_at_any_step_is_gone_on_with(ends: tuple[Engine, Engine], moment: str) -> None:
    first = ends[0]
    with SessionDB.on(first) as old:
        fill(old, MANY)
        target = CrashingEngine(ends[1])
        died = 0
        while True:
            target.arm(moment, skip=died % 3)  # type: ignore[arg-type]
            try:
                StoreMove(first, target).run()
            except ProcessDied:
                died += 1
                if not (target.read(steps.read_state) or {"done": True}).get("done"):
                    with pytest.raises(StoreReadOnly, match="not finished"):
                        SessionDB.on(target).create_session("new", source="cli")
                continue
            break
        assert died > len(TABLES) / 3
        target.disarm()
        same(first, target)
        target.close()


@pytest.mark.parametrize("ends", WAYS, indirect=True)
def test_the_old_store_is_read_at_each_step_of_a_move(ends: tuple[Engine, Engine]) -> None:
    with SessionDB.on(ends[0]) as old, SessionDB.on(ends[1]) as new:
        fill(old, MANY)
        before = old.get_messages("z")
        told: list[str] = []

        def read(what: str, *_: int) -> None:
            told.append(what)
            assert old.get_messages("z") == before
            assert old.search("message 7")
            assert old.inbox.waiting("a")
            with pytest.raises(StoreReadOnly, match="moved"):
                old.create_session("more", source="cli")

        old.move_to(new, read)
        assert {"messages", "checking messages", "search index"} <= set(told)
        assert new.get_messages("z") == before


def test_the_old_store_refuses_writes_with_the_reason_and_is_read(url: str, tmp_path: Path) -> None:
    with (
        SessionDB(tmp_path / "old.db") as old,
        SessionDB.open(url) as new,
        SessionDB(tmp_path / "n.db") as third,
    ):
        fill(old)
        with SessionDB(tmp_path / "old.db") as beside:  # a process that had it open before
            old.move_to(new)
            for write in (
                lambda: beside.create_session("more", source="cli"),
                lambda: beside.sessions.append_message("z", user("more")),
                lambda: beside.inbox.put("z", user("more")),
            ):
                with pytest.raises(StoreReadOnly, match="moved"):
                    write()
            assert len(beside.get_messages("z")) == len(new.get_messages("z"))
            assert beside.search("message")
        new.move_to(third)
        with pytest.raises(StoreReadOnly, match="moved"):
            new.create_session("more", source="cli")
        assert new.unlock()
        new.create_session("more", source="cli")
        assert not new.unlock()


def test_a_move_is_refused_while_a_turn_is_open_or_into_a_store_with_content(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "a.db") as old, SessionDB(tmp_path / "b.db") as new:
        fill(old)
        turn = old.turns.open("z", user("runs"))
        with pytest.raises(InvalidInput, match="1 turn is open"):
            old.move_to(new)
        old.turns.complete(turn.id, {"role": "assistant", "content": "done"}, providers=[])
        new.create_session("there", source="cli")
        with pytest.raises(InvalidInput, match="has content already"):
            old.move_to(new)
        with pytest.raises(InvalidInput, match="itself"):
            old.move_to(old)
        old.create_session("still", source="cli")  # nothing was changed
