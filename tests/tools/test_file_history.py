"""What tools do to files is kept before it happens, shown as a diff, and taken back."""

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.sessions import SessionDB
from holdfast.testing import CrashingEngine, ProcessDied
from holdfast.testing.faults import Moment
from holdfast.tools.contract import Tool
from holdfast.tools.environment import child_environment
from holdfast.tools.file_history import FileHistory, UndoneFile
from holdfast.tools.files import Files
from holdfast.tools.kept_contents import KeptContents, content_hash
from holdfast.tools.opened_file import OpenedFiles
from holdfast.tools.output import ResultBudget
from holdfast.tools.resolved_path import resolve_path
from holdfast.tools.terminal import terminal_tool
from tests.tools.call_fixtures import Calls

MEGABYTE = 1_000_000


@pytest.fixture
def db() -> Iterator[SessionDB]:
    with SessionDB(":memory:") as db:
        db.create_session("s1", source="cli")
        db.turns.open("s1", {"role": "user", "content": "go"}, turn_id="t1")
        yield db


@pytest.fixture
def kept(tmp_path: Path) -> KeptContents:
    return KeptContents(tmp_path / "kept", MEGABYTE)


@pytest.fixture
def history(db: SessionDB, kept: KeptContents) -> FileHistory:
    return FileHistory(db, kept)


@pytest.fixture
def tools(history: FileHistory, calls: Calls, tmp_path: Path) -> dict[str, Tool]:
    environment = child_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    command = terminal_tool(environment, ResultBudget(tmp_path / "out"), calls.sandbox(), history)
    return {each.name: each for each in (*Files(opened=OpenedFiles(history)).tools(), command)}


def outcomes(undone: list[UndoneFile]) -> dict[str, str]:
    return {each.path: each.outcome for each in undone}


def test_a_turns_changes_are_shown_and_taken_back_with_rights_and_bytes(
    calls: Calls, tools: dict[str, Tool], history: FileHistory
) -> None:
    old = calls.workspace / "old.sh"
    old.write_bytes(b"one\r\ntwo\r\n")
    old.chmod(0o750)
    binary = calls.workspace / "data.bin"
    binary.write_bytes(bytes(range(256)))
    calls.run(tools["edit_file"], path="old.sh", old="two", new="2")
    calls.run(tools["edit_file"], path="old.sh", old="one", new="1")
    calls.run(tools["write_file"], path="data.bin", text="text now")
    calls.run(tools["write_file"], path="new/file.txt", text="hello\n")

    found = {each.path: each for each in history.changes("s1", "t1")}
    assert {path: each.kind for path, each in found.items()} == {
        "old.sh": "changed",
        "data.bin": "changed",
        "new/file.txt": "created",
    }
    assert found["old.sh"].diff.splitlines()[3:] == ["-one", "-two", "+1", "+2"]
    assert (found["old.sh"].added, found["old.sh"].removed) == (2, 2)
    assert found["data.bin"].note == "binary: 256 bytes before, 8 after"
    assert all(not each.problem and not each.undone for each in found.values())

    assert outcomes(history.undo("s1", "t1")) == {
        "old.sh": "restored",
        "data.bin": "restored",
        "new/file.txt": "removed",
    }
    assert old.read_bytes() == b"one\r\ntwo\r\n"
    assert stat.S_IMODE(old.stat().st_mode) == 0o750
    assert binary.read_bytes() == bytes(range(256))
    assert not (calls.workspace / "new/file.txt").exists()
    assert history.undo("s1", "t1") == []
    assert all(each.undone for each in history.changes("s1"))


def test_a_file_that_is_put_back_belongs_to_its_owner_and_group(
    calls: Calls, tools: dict[str, Tool], history: FileHistory
) -> None:
    others = [each for each in os.getgroups() if each != os.getegid()]
    owner = (12345, 12345) if os.geteuid() == 0 else (-1, others[0] if others else -1)
    shared = calls.workspace / "shared.txt"
    shared.write_text("one\n")
    shared.chmod(0o640)
    os.chown(shared, *owner)
    before = shared.stat()
    calls.run(tools["edit_file"], path="shared.txt", old="one", new="1")
    assert outcomes(history.undo("s1", "t1")) == {"shared.txt": "restored"}
    after = shared.stat()
    assert shared.read_text() == "one\n"
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)


def test_what_was_changed_since_is_left_and_named(
    calls: Calls, tools: dict[str, Tool], history: FileHistory
) -> None:
    for name in ("mine", "between", "same", "linked"):
        (calls.workspace / name).write_text("before")
        calls.run(tools["write_file"], path=name, text="after")
    (calls.workspace / "mine").write_text("a person's")
    (calls.workspace / "between").write_text("a person's")
    calls.run(tools["write_file"], path="between", text="after again")
    (calls.workspace / "same").write_text("before")
    (calls.workspace / "linked").unlink()
    (calls.workspace / "linked").symlink_to("mine")

    undone = {each.path: each for each in history.undo("s1")}
    assert {path: (each.outcome, each.reason) for path, each in undone.items()} == {
        "mine": ("left", "it was changed since"),
        "between": ("left", "somebody else changed it between two changes of the agent"),
        "same": ("unchanged", ""),
        "linked": ("left", "it was changed since"),
    }
    assert (calls.workspace / "mine").read_text() == "a person's"
    assert (calls.workspace / "between").read_text() == "after again"


def test_the_files_that_a_command_names_are_covered(
    calls: Calls, tools: dict[str, Tool], history: FileHistory, db: SessionDB
) -> None:
    for name in ("gone.txt", "moved.txt", "read.txt", "unnamed.txt"):
        (calls.workspace / name).write_text(name)
    (calls.workspace / "link").symlink_to("read.txt")
    command = "cat read.txt; rm gone.txt link; mv moved.txt to.txt; echo new > 'a file.txt'; rm unn*"
    assert calls.run(tools["run_command"], command="touch brief; rm brief").ok
    assert history.changes("s1") == []
    assert db.file_changes.changed_turns("s1") == []
    assert calls.run(tools["run_command"], command=command).ok
    kinds = {each.path: each.kind for each in history.changes("s1")}
    assert kinds == {
        "gone.txt": "deleted",
        "link": "deleted",
        "moved.txt": "deleted",
        "to.txt": "created",
        "a file.txt": "created",
    }
    assert db.file_changes.changed_turns("s1") == ["t1"]
    history.undo("s1")
    left = {each.name: each.read_text() for each in calls.workspace.iterdir()}
    assert left == {
        "gone.txt": "gone.txt",
        "moved.txt": "moved.txt",
        "read.txt": "read.txt",
        "link": "read.txt",
    }
    assert (calls.workspace / "link").readlink() == Path("read.txt")


def test_a_crash_before_or_after_the_change_loses_nothing(
    calls: Calls, tools: dict[str, Tool], history: FileHistory, db: SessionDB
) -> None:
    target = calls.workspace / "a.txt"
    target.write_text("before")
    calls.run(tools["write_file"], path="a.txt", text="after")
    target.write_text("before")  # as if the process had died between the record and the change
    calls.run(tools["write_file"], path="a.txt", text="later")
    assert outcomes(history.undo("s1")) == {"a.txt": "restored"}
    assert target.read_text() == "before"
    # A command that never came back: what it did is not known, so nothing is overwritten.
    history.before_command(calls.context(), "rm a.txt", calls.workspace, {})
    target.write_text("half")
    [left] = history.undo("s1")
    assert (left.outcome, left.reason.partition(":")[0]) == (
        "left",
        "it is not known what was left there",
    )
    assert db.check() == []


def test_a_change_that_was_refused_is_not_on_record(
    calls: Calls, tools: dict[str, Tool], history: FileHistory
) -> None:
    (calls.workspace / "a.txt").write_text("before")
    (calls.workspace / "a.txt").chmod(0o444)
    with pytest.raises(Exception, match="read-only"):
        calls.run(tools["write_file"], path="a.txt", text="after")
    calls.run(tools["write_file"], path="b.txt", text="same")
    calls.run(tools["write_file"], path="b.txt", text="same")
    assert [each.path for each in history.changes("s1")] == ["b.txt"]


def test_a_subagents_changes_count_for_the_turn_it_works_for(
    calls: Calls, tools: dict[str, Tool], history: FileHistory
) -> None:
    inner = replace(calls.context(), session_id="child", turn_id="t-child", caller_turn="t1")
    tool = tools["write_file"]
    calls.context = lambda person=None: inner  # type: ignore[method-assign]
    calls.run(tool, path="made.txt", text="by a subagent")
    assert [each.path for each in history.changes("s1", "t1")] == ["made.txt"]


def test_the_oldest_contents_are_dropped_at_the_limit_and_a_deleted_conversation_leaves_none(
    calls: Calls, tools: dict[str, Tool], history: FileHistory, kept: KeptContents, tmp_path: Path
) -> None:
    for number in range(4):
        path = calls.workspace / f"{number}.txt"
        path.write_text(f"{number}" * 300_000)
        calls.run(tools["write_file"], path=path.name, text="short")
        for each in (tmp_path / "kept").rglob("*"):
            os.utime(each, ns=(number, number)) if each.stat().st_mtime_ns > 10 else None
    undone = {each.path: each.reason for each in history.undo("s1")}
    assert undone["0.txt"] == "its old content is not kept here any more"
    assert undone["3.txt"] == ""
    assert (calls.workspace / "0.txt").read_text() == "short"
    kept.forget("s1")
    assert not [each for each in (tmp_path / "kept").rglob("*") if each.is_file()]


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_dies_at_the_record_has_kept_the_content_and_changed_nothing(
    calls: Calls, db: SessionDB, kept: KeptContents, moment: Moment
) -> None:
    target = calls.workspace / "a.txt"
    target.write_text("before")
    crashing = CrashingEngine(db._engine)  # noqa: SLF001 - a store is built on an engine, and keeps it
    crashing.arm(moment)
    path = resolve_path(calls.workspace, "a.txt")
    with pytest.raises(ProcessDied):
        FileHistory(SessionDB.on(crashing), kept).write(calls.context(), "write_file", path, b"after")
    assert crashing.cut_off == {("record_file_changes", moment)}
    assert target.read_text() == "before"
    assert kept.get("s1", content_hash(b"before")) == b"before"
    undone = outcomes(FileHistory(db, kept).undo("s1"))
    assert undone == ({} if moment == "before" else {"a.txt": "unchanged"})
