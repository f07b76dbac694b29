"""Commands whose standard input, output or error is closed, full, or a pipe that nobody reads."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.real_terminal import COMMAND, PATIENCE, Home

pytestmark = pytest.mark.slow

ALL = [
    "config",
    "doctor",
    "sessions",
    "schedule",
    "memory",
    "model",
    "check",
    "ask hello",
    "chat",
    "web --port 0",
]


def in_a_shell(home: Home, command: str, streams: str, given: str = "hello\n") -> tuple[int, str, str]:
    """Run a command with its streams changed as a shell does it; its code, its result and what it said."""
    program = shlex.join([sys.executable, *COMMAND])
    done = subprocess.run(
        ["bash", "-c", f"{program} {command} {streams}"],
        env=home.environment(),
        cwd=home.folder,
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "this is a bug" not in done.stderr, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def home_with_a_conversation(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    home.script(["An answer."] * 3)
    assert in_a_shell(home, "ask first", "", given="")[0] == 0
    return home


@pytest.fixture
def spoken(home_with_a_conversation: Home, tmp_path: Path) -> Home:
    """A home of its own with that conversation in it."""
    shutil.copytree(home_with_a_conversation.folder, tmp_path, dirs_exist_ok=True)
    home = Home(tmp_path)
    home.script(["An answer."] * 3)
    return home


@pytest.mark.soak_cases("^(doctor|schedule|memory|model|check)$")
@pytest.mark.parametrize("command", ALL)
def test_a_closed_output_is_said_before_anything_is_done(spoken: Home, command: str) -> None:
    code, _, said = in_a_shell(spoken, command, ">&-")
    assert (code, "standard output is closed" in said) == (1, True), said
    assert spoken.said() == ["first"], "nothing was asked"


@pytest.mark.soak_cases("^(doctor|schedule|memory|model|check|config)$")
@pytest.mark.parametrize("command", [each for each in ALL if not each.startswith("web")])
def test_a_full_or_unread_output_is_said(spoken: Home, command: str) -> None:
    code, _, said = in_a_shell(spoken, command, ">/dev/full")
    assert (code, "can't be printed: No space left" in said) == (1, True), said
    code, _, said = in_a_shell(spoken, command, "> >(exec true); code=$?; wait $!; exit $code")
    # Who left early may have been fast or slow; it is an error or nothing, never a bug.
    assert code in (0, 1), said


@pytest.mark.soak_cases("^(doctor|sessions|memory)$")
@pytest.mark.parametrize("command", ["config", "doctor", "sessions", "memory", "ask hello"])
def test_without_an_input_a_command_works_that_needs_none(spoken: Home, command: str) -> None:
    code, out, said = in_a_shell(spoken, command, "<&-")
    assert code == 0, said
    assert out


def test_a_chat_without_an_input_says_so(home: Home) -> None:
    code, _, said = in_a_shell(home, "chat", "<&-")
    assert (code, "standard input is closed" in said) == (2, True), said


def test_a_question_that_should_come_from_a_closed_input_is_missed(home: Home) -> None:
    code, _, said = in_a_shell(home, "ask", "<&-")
    assert (code, "ask needs a question" in said) == (2, True), said


@pytest.mark.soak_cases("(doctor|sessions|memory|config)$")
@pytest.mark.parametrize("command", ["config", "doctor", "sessions", "memory", "ask hello", "chat"])
@pytest.mark.parametrize("streams", ["2>&-", "2>/dev/full"])
def test_without_a_place_for_diagnostics_the_result_is_still_printed(
    spoken: Home, command: str, streams: str
) -> None:
    code, out, _ = in_a_shell(spoken, command, streams)
    assert code == 0
    assert out


def test_with_all_three_closed_it_ends(spoken: Home) -> None:
    assert in_a_shell(spoken, "sessions", "<&- >&- 2>&-")[0] == 1
