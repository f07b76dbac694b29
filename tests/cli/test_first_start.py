"""Every command in a home where nothing was ever started, and the ways to start one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.real_terminal import PATIENCE, Home, run

COMMANDS = [
    (["memory"], "local: 0 turns owed"),
    (["memory", "status"], "local: 0 turns owed"),
    (["memory", "set-aside"], ""),
    (["memory", "search", "ships"], "Nothing was found."),
    (["sessions"], "There are no conversations yet."),
    (["sessions", "list"], "There are no conversations yet."),
    (["sessions", "search", "ships"], ""),
    (["doctor"], "none yet; the first conversation makes it"),
    (["config"], "web.port = 8484"),
    (["config", "path"], "settings.toml"),
    (["model"], "scripted"),
    (["check"], "no conversations yet"),
]
NONE_YET = [
    (["sessions", "show", "1"], 2),
    (["sessions", "export", "1"], 2),
    (["sessions", "delete", "1"], 2),
    (["ask", "--continue", "hello"], 2),
    (["chat", "--continue"], 2),
]


@pytest.fixture
def fresh(home: Home) -> Home:
    """A home whose settings name no store: it will be in the data folder."""
    home.settings["HOLDFAST_STORE_URL"] = ""
    return home


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"), COMMANDS, ids=lambda each: "-".join(each) if isinstance(each, list) else ""
)
def test_a_command_before_the_first_conversation_finds_nothing_and_succeeds(
    fresh: Home, command: list[str], said: str
) -> None:
    done = run(fresh, *command)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert not list(fresh.folder.rglob("holdfast.db")), "looking makes no store"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "code"), NONE_YET, ids=lambda each: "-".join(each) if isinstance(each, list) else ""
)
def test_a_conversation_that_is_asked_for_before_there_is_any_is_missed_in_words(
    fresh: Home, command: list[str], code: int
) -> None:
    done = run(fresh, *command)
    assert (done.returncode, "there are no conversations yet" in done.stderr) == (code, True), done.stderr


@pytest.mark.slow
def test_memory_is_looked_at_right_after_it_was_set_up(fresh: Home) -> None:
    assert run(fresh, "memory", "setup", "local", "--no-check").returncode == 0
    assert run(fresh, "memory").returncode == 0


@pytest.mark.slow
def test_a_store_that_is_named_and_missing_is_still_an_error(home: Home) -> None:
    home.settings["HOLDFAST_STORE_URL"] = f"sqlite:///{home.folder}/mistyped.db"
    for command in (["sessions"], ["memory"], ["check"]):
        done = run(home, *command)
        assert (done.returncode, "there is no such file" in done.stderr) == (4, True)


@pytest.mark.slow
def test_the_package_runs_as_a_module(home: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "config", "path"],
        env=home.environment(),
        cwd=home.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, Path(done.stdout.strip()).name) == (0, "settings.toml")
