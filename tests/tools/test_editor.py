"""The file tools and commands of a conversation that an editor shows."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import ToolFailed
from holdfast.sessions import SessionDB
from holdfast.tools.contract import Tool, ToolContext
from holdfast.tools.editor import Editor, EditorTerminal, TerminalEnd
from holdfast.tools.editor_terminal import EditorTerminals
from holdfast.tools.environment import child_environment
from holdfast.tools.file_history import FileHistory
from holdfast.tools.files import Files
from holdfast.tools.kept_contents import KeptContents
from holdfast.tools.opened_file import OpenedFiles
from holdfast.tools.output import ResultBudget
from holdfast.tools.sandbox import Launch
from holdfast.tools.terminal import terminal_tool
from tests.tools.call_fixtures import Calls, finish


@dataclass
class FakeTerminal:
    """A terminal in which a command has ended already."""

    end: TerminalEnd
    text: str
    done: list[str] = field(default_factory=list)

    async def wait(self) -> TerminalEnd:
        return self.end

    async def kill(self) -> None:
        self.done.append("kill")

    async def output(self) -> tuple[str, bool]:
        return self.text, False

    async def release(self) -> None:
        self.done.append("release")


@dataclass
class FakeEditor:
    """Buffers that are not saved; a write goes to the buffer and, unless it is lazy, to the disk."""

    buffers: dict[str, str] = field(default_factory=dict)
    reads: bool = True
    writes: bool = True
    saves: bool = True
    ending: str = ""
    """What it adds as it saves, as a formatter does."""
    refuses: bool = False
    terminal: FakeTerminal | None = None
    words: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    async def read_text(self, path: Path) -> str | None:
        if path.name in self.buffers:
            return self.buffers[path.name]
        return path.read_text() if path.exists() else None  # noqa: ASYNC240

    async def write_text(self, path: Path, text: str) -> None:
        if self.refuses:
            raise ToolFailed("the editor did not write it")
        self.buffers[path.name] = text + self.ending
        if self.saves:
            path.write_text(self.buffers.pop(path.name))  # noqa: ASYNC240

    async def start(
        self, context: ToolContext, words: Sequence[str], folder: str, environment: Mapping[str, str]
    ) -> EditorTerminal | None:
        assert context.call_id
        assert folder
        self.words, self.environment = list(words), dict(environment)
        return self.terminal


@pytest.fixture
def editor() -> FakeEditor:
    return FakeEditor()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[FileHistory]:
    with SessionDB(":memory:") as db:
        db.create_session("s1", source="acp")
        db.turns.open("s1", {"role": "user", "content": "go"}, turn_id="t1")
        yield FileHistory(db, KeptContents(tmp_path / "kept", 1_000_000))


@pytest.fixture
def tools(editor: FakeEditor, history: FileHistory, calls: Calls, tmp_path: Path) -> dict[str, Tool]:
    async def editor_of(_: ToolContext) -> Editor | None:
        return editor

    environment = child_environment({"PATH": os.environ["PATH"]})
    there = EditorTerminals(editor_of, {"SOME_API_KEY"})
    command = terminal_tool(environment, ResultBudget(tmp_path / "out"), calls.sandbox(), None, there)
    files = Files(opened=OpenedFiles(history, editor_of)).tools()
    return {each.name: each for each in (*files, command)}


def test_changes_that_are_not_saved_are_read_edited_and_brought_back_by_an_undo(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor, history: FileHistory
) -> None:
    file = calls.workspace / "a.txt"
    file.write_text("on disk\n")
    editor.buffers["a.txt"] = "typed\nline two\n"
    shown = calls.run(tools["read_file"], path="a.txt").text
    assert "1\ttyped" in shown
    assert "not saved yet" in shown
    done = calls.run(tools["edit_file"], path="a.txt", old="line two", new="line 2")
    assert done.text == "replaced 1 place in a.txt (line 2)"
    assert file.read_text() == "typed\nline 2\n"
    assert editor.buffers == {}
    (change,) = history.changes("s1", "t1")
    assert change.diff.splitlines()[-2:] == ["-line two", "+line 2"]
    assert [each.outcome for each in history.undo("s1", "t1")] == ["restored"]
    # What the person had typed is there again, not what was on disk.
    assert file.read_text() == "typed\nline two\n"


def test_a_file_that_exists_only_in_the_editor_is_read_and_a_new_one_is_removed_by_an_undo(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor, history: FileHistory
) -> None:
    editor.buffers["draft.txt"] = "a draft"
    assert "1\ta draft" in calls.run(tools["read_file"], path="draft.txt").text
    done = calls.run(tools["write_file"], path="deep/new.txt", text="hello")
    assert done.text == "created deep/new.txt (5 bytes)"
    assert [each.outcome for each in history.undo("s1", "t1")] == ["removed"]
    assert not (calls.workspace / "deep" / "new.txt").exists()


def test_what_an_editor_makes_of_a_text_is_said_and_can_be_taken_back(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor, history: FileHistory
) -> None:
    file = calls.workspace / "a.py"
    file.write_text("x=1")
    editor.ending = "\n# formatted\n"
    assert "changed it further" in calls.run(tools["write_file"], path="a.py", text="x = 1").text
    assert [each.outcome for each in history.undo("s1", "t1")] == ["restored"]
    assert file.read_text() == "x=1"
    editor.ending, editor.saves = "", False
    assert "not saved it yet" in calls.run(tools["write_file"], path="a.py", text="x = 2").text
    assert file.read_text() == "x=1"


def test_a_refused_write_changes_and_records_nothing(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor, history: FileHistory
) -> None:
    editor.refuses = True
    with pytest.raises(ToolFailed, match="did not write"):
        calls.run(tools["write_file"], path="a.txt", text="x")
    assert history.changes("s1", "t1") == []


def test_a_file_outside_the_workspace_or_marked_read_only_keeps_its_rules(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor, tmp_path: Path
) -> None:
    fixed = calls.workspace / "fixed.txt"
    fixed.write_text("x")
    fixed.chmod(0o400)
    with pytest.raises(ToolFailed, match="read-only"):
        calls.run(tools["write_file"], path="fixed.txt", text="y")
    outside = tmp_path / "outside.txt"
    editor.refuses = True
    calls.run(tools["write_file"], path=str(outside), text="allowed")
    assert outside.read_text() == "allowed"
    assert [each.kind for each in calls.person.asked] == ["write"]


def test_a_command_runs_in_the_editors_terminal_without_the_secrets(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor
) -> None:
    editor.terminal = FakeTerminal(TerminalEnd(0), "hello from there\n")
    result = calls.run(tools["run_command"], command="echo hello")
    assert result.ok
    assert result.text.startswith("hello from there\n[exit code 0 after ")
    assert [each.subject for each in calls.person.asked] == ["echo hello"]
    assert editor.words[1:3] == ["-u", "SOME_API_KEY"]
    assert editor.words[-1] == "echo hello"
    assert editor.environment["PAGER"] == "cat"
    assert editor.terminal.done == ["release"]
    assert len(calls.events) == 1  # from which on the editor shows its terminal
    editor.terminal = FakeTerminal(TerminalEnd(None, "SIGKILL"), "")
    ended = calls.run(tools["run_command"], command="echo hello")
    assert not ended.ok
    assert "ended by SIGKILL" in ended.text


def test_a_command_runs_without_the_editor_when_it_has_no_terminal_and_never_there_unasked(
    calls: Calls, tools: dict[str, Tool], editor: FakeEditor
) -> None:
    assert "here" in calls.run(tools["run_command"], command="echo here").text
    assert editor.words[-1] == "echo here"
    calls.person.yes = False
    editor.words = []
    assert "not run" in calls.run(tools["run_command"], command="echo never").text
    assert editor.words == []


@pytest.mark.parametrize("inside", [{"wrapped": True}, {"files": (99,)}, {"kill": ("kill",)}])
def test_a_command_in_a_sandbox_stays_in_it(
    calls: Calls, editor: FakeEditor, tmp_path: Path, inside: dict[str, Any]
) -> None:
    editor.terminal = FakeTerminal(TerminalEnd(0), "")

    async def editor_of(_: ToolContext) -> Editor | None:
        return editor

    launch = Launch(("/bin/sh", "-c", "true"), {}, "/", **inside)
    with ResultBudget(tmp_path / "out").spool("s1") as spool:
        started = finish(EditorTerminals(editor_of, ()).start(calls.context(), launch, spool))
    assert started is None
    assert editor.words == []
