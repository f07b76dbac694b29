"""`holdfast store move` and `holdfast store unlock`, as a person types them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import SessionDB
from holdfast.core.errors import StoreReadOnly
from tests.cli.real_terminal import Home, run
from tests.postgres_server import PASSWORD
from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import contents, user

# Each test is several processes.
pytestmark = pytest.mark.slow


@pytest.fixture
def old(home: Home) -> str:
    """The address of a store with a conversation of two messages."""
    home.database.parent.mkdir(parents=True, exist_ok=True)
    with SessionDB(home.database) as db:
        db.create_session("s", source="cli")
        db.sessions.append_messages("s", [user("one"), user("two")])
    return f"sqlite:///{home.database}"


@pytest.fixture(params=["sqlite", "postgres"])
def new(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty store."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/new.db"
        return
    place = PostgresPlace(request.getfixturevalue("postgres"))
    yield place.url
    place.drop()


def test_a_store_is_moved_and_the_old_one_is_unlocked(home: Home, old: str, new: str) -> None:
    moved = run(home, "store", "move", old, new)
    assert moved.returncode == 0, moved.stderr
    assert "2 messages." in moved.stdout
    assert "Every table was read back" in moved.stdout
    assert "HOLDFAST_STORE_URL" in moved.stdout
    assert "messages: " in moved.stderr
    assert PASSWORD not in moved.stdout + moved.stderr
    again = run(home, "store", "move", old, new)
    assert (again.returncode, "2 messages." in again.stdout) == (0, True), again.stderr
    with SessionDB.open(new) as db:
        assert contents(db.get_messages("s")) == ["one", "two"]
    with SessionDB(home.database) as db, pytest.raises(StoreReadOnly, match="holdfast store unlock"):
        db.create_session("more", source="cli")
    assert "can be written again" in run(home, "store", "unlock", old).stdout
    with SessionDB(home.database) as db:
        db.create_session("more", source="cli")
    assert "nothing was changed" in run(home, "store", "unlock", old).stdout


def test_a_move_that_can_not_be_is_refused_and_changes_nothing(home: Home, old: str, tmp_path: Path) -> None:
    missing, target = f"sqlite:///{tmp_path}/missing.db", tmp_path / "new.db"
    refused = run(home, "store", "move", missing, f"sqlite:///{target}")
    assert (refused.returncode, "no such file" in refused.stderr) == (4, True), refused.stderr
    assert not target.exists()
    with SessionDB(target) as db:
        db.create_session("there", source="cli")
    refused = run(home, "store", "move", old, f"sqlite:///{target}")
    assert refused.returncode != 0
    assert "has content already" in refused.stderr
    with SessionDB(home.database) as db:
        db.create_session("more", source="cli")  # it was not closed
