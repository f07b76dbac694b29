"""What can't be opened is named, says what was kept and what to do, and is never overwritten."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import (
    DatabaseDamaged,
    HoldfastError,
    InvalidInput,
    NotADatabase,
    SchemaTooNew,
    StoreInvalid,
    StoreUnopenable,
)
from holdfast.sessions import SessionDB
from tests.fast_run import examples
from tests.sessions.store_fixtures import completed_turn, user

ROOT = os.geteuid() == 0


@pytest.mark.parametrize("address", ["sqlite:///x.db", "postgresql://me:secret@host/x"])
def test_an_address_is_not_taken_for_a_path(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=r"is an address, not a path; .* SessionDB\.open") as refused:
        SessionDB(address)
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def written(path: Path) -> Path:
    """A database with something in it, closed."""
    with SessionDB(path) as db:
        db.create_session("s", source="cli")
        for number in range(60):
            completed_turn(db, "s", f"question {number} {'and more ' * 30}", providers=["p"])
    return path


@contextlib.contextmanager
def unchanged(folder: Path) -> Iterator[None]:
    """Nothing in the folder is changed, made or removed, but for an empty log and its index."""

    def files() -> dict[Path, bytes]:
        found = {each: each.read_bytes() for each in folder.rglob("*") if each.is_file()}
        return {
            each: content
            for each, content in found.items()
            if not each.name.endswith("-shm") and (content or not each.name.endswith("-wal"))
        }

    before = files()
    yield
    assert files() == before


def refuse(path: Path, kind: type[HoldfastError]) -> str:
    """Open in vain, twice; the message."""
    with unchanged(path.parent):
        messages = []
        for _ in range(2):
            with pytest.raises(kind) as refused:
                SessionDB(path)
            messages.append(str(refused.value))
    assert messages[0] == messages[1]
    assert str(path) in messages[0]
    return messages[0]


@pytest.mark.parametrize(
    "content",
    [b"x", b"hello world\n" * 1000, b"\x00" * 5000, b"SQLite format 3\x00", b"SQLite format 3\x00" * 90],
)
def test_a_file_that_is_no_database_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    message = refuse(path, StoreInvalid)
    assert "left as it is" in message or "not overwritten" in message


@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_the_database_of_another_program_is_left_as_it_is(path: Path, mode: str) -> None:
    other = sqlite3.connect(path)
    other.execute(f"pragma journal_mode = {mode}")
    other.executescript("create table notes (text); insert into notes values ('mine');")
    other.close()
    assert "another path" in refuse(path, NotADatabase)


def test_what_another_program_has_not_folded_into_its_database_yet_stays_in_its_log(
    path: Path,
) -> None:
    _crashed_with_log(path, "create table notes (text); insert into notes values ('mine');")
    refuse(path, NotADatabase)


def test_an_empty_database_that_another_program_has_marked_as_its_own_is_left_alone(
    path: Path,
) -> None:
    other = sqlite3.connect(path)
    other.executescript("pragma application_id = 1234; pragma user_version = 1;")
    other.close()
    refuse(path, NotADatabase)


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    with SessionDB(path) as db:
        db.create_session("s", source="cli")
    with SessionDB(path) as db:
        assert db.get_session("s") is not None


def test_a_missing_folder_is_made_and_only_its_owner_may_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "holdfast.db"
    with SessionDB(path) as db:
        db.create_session("s", source="cli")
        for each in path.parent.iterdir():
            assert each.stat().st_mode & 0o077 == 0, each
    assert path.parent.stat().st_mode & 0o077 == 0


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreUnopenable, match="folder"):
        SessionDB(tmp_path)


@pytest.mark.parametrize("below", ["file/holdfast.db", "file/a/holdfast.db", "x" * 300, "nul\x00byte"])
def test_a_path_that_can_not_be_is_refused_by_name(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("a file")
    with unchanged(tmp_path), pytest.raises(HoldfastError):
        SessionDB(f"{tmp_path}/{below}")


@pytest.mark.parametrize(
    "url",
    ["", "holdfast.db", "sqlite:", "sqlite://", "sqlite:///", "mysql://h/d", "://x"],
)
def test_an_address_that_is_none_is_invalid_input(url: str) -> None:
    with pytest.raises(InvalidInput, match="sqlite:///PATH"):
        SessionDB.open(url)


def test_an_address_opens_the_file_it_names(tmp_path: Path) -> None:
    with SessionDB.open(f"sqlite:///{tmp_path}/holdfast.db") as db:
        db.create_session("s", source="cli")
        assert db.location == f"{tmp_path}/holdfast.db"
    assert (tmp_path / "holdfast.db").exists()


@pytest.mark.parametrize("mark", ["9998.pre", "9998.post", "9999.post", "9999.later", "banana", ""])
def test_a_newer_schema_is_left_as_it_is(written: Path, mark: str) -> None:
    _set_schema_mark(written, mark)
    message = refuse(written, SchemaTooNew)
    assert "Upgrade" in message


def test_a_newer_schema_with_an_unfolded_log_keeps_its_log(written: Path) -> None:
    _crashed_with_log(written, "update meta set value = '9999.pre';")
    refuse(written, SchemaTooNew)


@pytest.mark.parametrize("missing", ["delete from meta", "drop table meta"])
def test_a_database_that_lost_its_schema_mark_is_named_as_damaged(written: Path, missing: str) -> None:
    other = sqlite3.connect(written)
    other.executescript(missing)
    other.close()
    assert "backup" in refuse(written, DatabaseDamaged)


def test_a_file_cut_short_is_named_as_damaged_and_left_as_it_is(written: Path) -> None:
    whole = written.read_bytes()
    for length in (1, 50, 99, 100, 512, 4095, 4096, 5000, 8192, len(whole) // 2, len(whole) - 4096):
        written.write_bytes(whole[:length])
        message = refuse(written, StoreInvalid)
        assert "left as it is" in message or "not overwritten" in message, length
    written.write_bytes(whole)
    with SessionDB(written) as db:
        assert len(db.get_messages("s")) == 120


def exercised(path: Path) -> None:
    """Open, read everything, write a little."""
    with SessionDB(path) as db:
        db.get_messages("s")
        db.search("question")
        db.export_session("s")
        db.sessions.append_message("s", user("one more"))
        db.outbox.claim("p", lease_seconds=1, limit=5)
        db.check()


@given(data=st.data())
@settings(
    max_examples=examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_flipped_bit_anywhere_is_survived_or_named(written: Path, data: st.DataObject) -> None:
    original = written.with_suffix(".original")
    if not original.exists():
        original.write_bytes(written.read_bytes())
    damaged = bytearray(original.read_bytes())
    near_header = st.integers(0, 4095)
    for place in data.draw(st.lists(near_header | st.integers(0, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[place] ^= 1 << data.draw(st.integers(0, 7))
    written.write_bytes(damaged)
    for suffix in ("-wal", "-shm"):
        Path(f"{written}{suffix}").unlink(missing_ok=True)
    try:
        exercised(written)
    except StoreInvalid:
        with contextlib.suppress(StoreInvalid):
            SessionDB(written).close()
            return  # it opens: the damage lies where opening doesn't look
        assert written.read_bytes() == bytes(damaged)
    except HoldfastError:
        pass  # named, though not for what it is


def test_damage_found_while_reading_is_named_and_the_rest_stays_readable(written: Path) -> None:
    with SessionDB(written) as db:
        db.create_session("other", source="cli")
        db.sessions.append_message("other", user("fine"))
        connection = sqlite3.connect(written)
        [(root,)] = connection.execute("select rootpage from sqlite_schema where name = 'outbox'")
        [(size,)] = connection.execute("pragma page_size")
        connection.close()
    with written.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xff" * size)
    with SessionDB(written) as db:
        with pytest.raises(DatabaseDamaged, match="recover"):
            db.outbox.list("owed")
        assert db.get_messages("other") == [user("fine")]
        assert db.check() != []


CHILD = """
import os, sys
sys.path[:0] = eval(sys.argv[2])
from holdfast.core.errors import HoldfastError
from holdfast.sessions import SessionDB
# Everything is imported before the rights are gone: this Python may live in root's home.
SessionDB(":memory:").close()
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
try:
    with SessionDB(sys.argv[1]) as db:
        db.create_session("new", source="cli")
    print("opened")
except HoldfastError as error:
    print(type(error).__name__, error)
"""


def opened_by_nobody(path: Path) -> str:
    """What an ordinary user without rights here is told."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), repr([each for each in sys.path if each])],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def ordinary_user(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where nobody else can run this Python."""
    if not ROOT:
        pytest.skip("needs root, to become an ordinary user")
    place = tmp_path_factory.mktemp("probe")
    _let_pass(place)
    place.chmod(0o777)
    if "opened" not in opened_by_nobody(place / "holdfast.db"):
        pytest.skip("an ordinary user can't even run this Python here")


@pytest.fixture
def reachable(written: Path, ordinary_user: None) -> Path:
    """The written database, in folders that an ordinary user may pass through."""
    _let_pass(written.parent)
    return written


def _let_pass(place: Path) -> None:
    for folder in [place, *place.parents]:
        if folder.stat().st_uid == 0 and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)


@pytest.mark.parametrize(
    ("file_mode", "folder_mode"),
    [(0o444, 0o777), (0o444, 0o755), (0o644, 0o755), (0o666, 0o755), (0o000, 0o755), (0o644, 0o700)],
)
def test_without_the_right_to_write_the_store_says_so_and_what_to_check(
    reachable: Path, file_mode: int, folder_mode: int
) -> None:
    reachable.chmod(file_mode)
    before = reachable.read_bytes()
    reachable.parent.chmod(folder_mode)
    answer = opened_by_nobody(reachable)
    assert answer.startswith(("StoreReadOnly", "StoreUnopenable")), answer
    assert str(reachable) in answer
    reachable.parent.chmod(0o755)
    assert reachable.read_bytes() == before


def _set_schema_mark(path: Path, mark: str) -> None:
    other = sqlite3.connect(path)
    other.execute("update meta set value = ? where key = 'schema'", (mark,))
    # It does not say that it serves older programs.
    other.execute("delete from meta where key = 'oldest_program'")
    other.commit()
    other.close()


def _crashed_with_log(path: Path, script: str) -> None:
    """Run a script in another process that dies before its log is folded into the file."""
    program = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
        "c.execute('pragma journal_mode = wal'); c.executescript(sys.argv[2]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", program, str(path), script], check=True, timeout=60)
    assert Path(f"{path}-wal").stat().st_size > 0


def test_a_relative_path_means_the_same_file_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with SessionDB("holdfast.db") as db:
        db.create_session("s", source="cli")
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert db.get_session("s") is not None
        db.backup("copy.db")
    assert [each.name for each in (tmp_path / "elsewhere").iterdir()] == ["copy.db"]


@pytest.mark.parametrize(
    "damage",
    ["update sessions set title = x'00'", "update messages set extra = '{'"],
    ids=["bytes", "no JSON"],
)
def test_a_text_that_damage_made_into_something_else_is_named(written: Path, damage: str) -> None:
    with contextlib.closing(sqlite3.connect(written)) as raw, raw:
        # No statement can do this to a strict table; a broken disk can.
        raw.execute("pragma writable_schema = on")
        raw.execute("update sqlite_schema set sql = replace(sql, ') strict', ')') where name = 'sessions'")
        raw.execute("pragma writable_schema = reset")
        raw.execute(damage)
    with SessionDB(written) as db, pytest.raises(DatabaseDamaged, match="not overwritten"):
        db.export_session("s")
