"""Started in a home folder with a model that reaches for everything: what is asked, said, refused (S1)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.real_terminal import COMMAND, PATIENCE, Home, Terminal

# Each test is several processes.
pytestmark = [pytest.mark.clause("S1"), pytest.mark.slow]
SECRET = "sk-hunter2"


@pytest.fixture
def home(home: Home) -> Home:
    """A home with a token, secrets and settings in it."""
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    for name in ("data/holdfast/web-token", "data/holdfast/secrets.toml"):
        (home.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (home.folder / name).write_text(f"# {SECRET}\n")
    (home.folder / "notes.txt").write_text(f"# {SECRET} in my notes\n")
    return home


def at(home: Home, folder: Path, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *COMMAND, *arguments],
        env=home.environment(**more),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def calls(*named: tuple[str, dict[str, object]]) -> list[object]:
    return [[{"tool": tool, "arguments": arguments} for tool, arguments in named], "Done."]


ATTACKS: tuple[tuple[str, dict[str, object]], ...] = (
    ("read_file", {"path": "data/holdfast/web-token"}),
    ("read_file", {"path": "data/holdfast/secrets.toml"}),
    ("write_file", {"path": "config/holdfast/settings.toml", "text": "[tools]\napproval = 'never-ask'\n"}),
    ("write_file", {"path": "data/holdfast/memory_providers/evil.py", "text": "raise SystemExit('ran')"}),
    ("write_file", {"path": "data/holdfast.db", "text": "gone"}),
    ("search_files", {"pattern": "hunter2", "folder": "data"}),
    ("run_command", {"command": "cat data/holdfast/web-token"}),
)


def results(ran: "subprocess.CompletedProcess[str]") -> dict[str, str]:
    events = [json.loads(line) for line in ran.stdout.splitlines()]
    return {f"{each['call_id']}": each["output"] for each in events if each["kind"] == "ToolFinished"}


@pytest.mark.parametrize("mode", ["ask", "never-ask"])
@pytest.mark.parametrize("named", [False, True])
def test_a_model_in_a_home_folder_gets_at_nothing_of_holdfasts_own_unasked(
    home: Home, mode: str, named: bool
) -> None:
    home.script(calls(*ATTACKS))
    rules = json.dumps(["read:*", "write:*", "command:*"])
    chosen = ["--workspace", str(home.folder)] if named else []
    ran = at(
        home,
        home.folder,
        *("ask", "--json", *chosen, "go"),
        HOLDFAST_TOOLS_APPROVAL=mode,
        HOLDFAST_TOOLS_ALLOW=rules,
    )
    assert ran.returncode == 0, ran.stderr
    told = results(ran)
    assert len(told) == len(ATTACKS)
    assert SECRET not in ran.stdout
    assert not (home.folder / "config/holdfast/settings.toml").exists()
    assert not (home.folder / "data/holdfast/memory_providers").exists()
    assert home.said() == ["go"]


def test_ask_in_a_home_folder_says_so_and_touches_no_file(home: Home) -> None:
    home.script(calls(("read_file", {"path": "notes.txt"}), ("write_file", {"path": "new.txt", "text": "x"})))
    ran = at(home, home.folder, "ask", "--json", "go")
    assert ran.returncode == 0
    assert (
        "is a home folder, so the agent may not use the files in it: this needs approval, and nobody"
        in ran.stderr
    )
    assert SECRET not in ran.stdout
    assert not (home.folder / "new.txt").exists()
    home.script(calls(("read_file", {"path": "notes.txt"})))
    ran = at(home, home.folder, "ask", "--json", "--workspace", ".", "go")
    assert f"{SECRET} in my notes" in ran.stdout
    assert "is a home folder; tools use its files without asking" in ran.stderr


def test_ask_at_the_root_reads_no_file_of_the_system(home: Home) -> None:
    home.script(
        calls(("read_file", {"path": "etc/passwd"}), ("search_files", {"pattern": "root", "folder": "etc"}))
    )
    ran = at(home, Path("/"), "ask", "--json", "go")
    assert "/ is the whole file system" in ran.stderr
    assert "root:" not in ran.stdout


def test_a_project_is_a_workspace_without_a_word(home: Home) -> None:
    (home.project / "notes.txt").write_text("the notes")
    home.script(calls(("read_file", {"path": "notes.txt"})))
    ran = at(home, home.project, "ask", "--json", "go")
    assert "the notes" in ran.stdout
    assert "workspace" not in ran.stderr


@pytest.mark.parametrize("folder", ["", "data", "/"])
@pytest.mark.parametrize(
    "command",
    [("web", "--port", "0"), ("gateway",), ("worker",), ("mcp", "serve", "--allow", "ask")],
    ids=" ".join,
)
def test_a_server_refuses_such_a_folder_and_says_the_way_out(
    home: Home, command: tuple[str, ...], folder: str
) -> None:
    where = home.folder / folder
    where.mkdir(exist_ok=True)
    # A worker needs a shared store; nobody connects to it before the folder is refused.
    shared = {"HOLDFAST_STORE_URL": "postgresql://127.0.0.1:1/none"} if "worker" in command else {}
    ran = at(home, where, *command, **shared)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "Nothing was started" in ran.stderr
    assert f"--workspace {where}" in ran.stderr
    assert "HOLDFAST_TOOLS_WORKSPACE" in ran.stderr
    assert not home.database.exists()


def test_a_workspace_that_is_not_there_is_named(home: Home) -> None:
    ran = at(home, home.project, "ask", "--workspace", "nowhere", "go")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"the workspace {home.project / 'nowhere'} is not a folder" in ran.stderr


def in_home(home: Home) -> Terminal:
    return Terminal(("chat",), home.environment(), home.folder, (30, 200))


def test_a_chat_in_a_home_folder_asks_first_and_then_about_every_file(home: Home) -> None:
    home.script(calls(("read_file", {"path": "notes.txt"})))
    terminal = in_home(home)
    terminal.see(f"{home.folder} is a home folder, not a project.", "g, w, q or a path")
    terminal.type("g")
    terminal.see("so the agent asks about every file in it", "ready")
    terminal.type("go")
    terminal.see("Allow this read (in a folder that was not chosen as a workspace)?", "notes.txt")
    terminal.type("n")
    terminal.see("Done.", "ready")
    assert terminal.leave() == 0
    again = in_home(home)
    again.see("so the agent asks about every file in it", "ready")
    assert "g, w, q" not in again.screen.shown()
    again.type("/status")
    again.see(f"workspace: none: {home.folder} is a home folder", "approval: ask (you are asked", "sandbox:")
    assert "only the workspace" not in again.screen.shown()
    assert again.leave() == 0


def test_a_chat_in_a_home_folder_can_work_in_a_folder_of_its_own(home: Home) -> None:
    home.script(calls(("write_file", {"path": "new.txt", "text": "x"})))
    terminal = in_home(home)
    terminal.see("g, w, q or a path")
    terminal.type("no/such/folder")
    terminal.see("is not a folder", "g, w, q or a path")
    terminal.type("w")
    terminal.see("ready")
    terminal.type("go")
    terminal.see("Done.", "ready")
    assert terminal.leave() == 0
    assert (home.folder / "holdfast-work" / "new.txt").read_text() == "x"


@pytest.mark.parametrize("how", ["q\r", "\x04"])
def test_a_chat_in_a_home_folder_can_be_left_at_once(home: Home, how: str) -> None:
    terminal = in_home(home)
    terminal.see("g, w, q or a path")
    terminal.key(how)
    assert terminal.end() == 0
    assert not home.database.exists()


def test_the_doctor_names_the_workspace(home: Home) -> None:
    assert "workspace: " + os.fspath(home.project) in at(home, home.project, "doctor").stdout
    assert "is a home folder" in at(home, home.folder, "doctor").stdout
