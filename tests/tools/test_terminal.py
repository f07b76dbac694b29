"""A foreground command: its output, its limits, and that nothing of it is left behind."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from holdfast.core.errors import ToolArgumentsInvalid, ToolFailed
from holdfast.tools.contract import Tool
from holdfast.tools.environment import child_environment
from holdfast.tools.output import ResultBudget
from holdfast.tools.terminal import terminal_tool
from tests.tools.call_fixtures import Calls, finish, until
from tests.tools.live_processes import alive, pids

ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def budget(tmp_path: Path) -> ResultBudget:
    return ResultBudget(tmp_path / "kept", 2000)


@pytest.fixture
def terminal(calls: Calls, budget: ResultBudget) -> Tool:
    return terminal_tool(child_environment(ENVIRONMENT), budget, calls.sandbox())


async def interrupt_when(calls: Calls, terminal: Tool, command: str, count: int) -> tuple[list[int], float]:
    """Run a command, cancel it once `count` processes are up, and say how long they took to be gone."""
    task = asyncio.create_task(calls.call(terminal, command=command))
    await until(lambda: bool(pids(calls.workspace, count)))
    begun = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    found = pids(calls.workspace, count)
    # One that is dying has no environment any more, and for a moment no end either.
    await until(lambda: not any(alive(pid) for pid in found))
    return found, time.monotonic() - begun


def test_a_command_runs_in_the_workspace_and_says_how_it_ended(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="pwd; echo oops >&2; exit 3")
    assert result.text.startswith(f"{calls.workspace}\noops\n[exit code 3 after ")
    assert not result.ok
    assert calls.run(terminal, command="true").text.startswith("(no output)\n[exit code 0 after ")
    assert calls.run(terminal, command="true").ok


def test_a_command_may_run_in_a_folder_of_the_workspace_only(
    calls: Calls, terminal: Tool, tmp_path: Path
) -> None:
    (calls.workspace / "inner").mkdir()
    (calls.workspace / "out").symlink_to(tmp_path)
    assert calls.run(terminal, command="pwd", folder="inner").text.startswith(f"{calls.workspace}/inner\n")
    for folder in ("..", "/", "out", "inner/../.."):
        with pytest.raises(ToolFailed, match="outside the workspace"):
            calls.run(terminal, command="pwd", folder=folder)
    for folder in ("missing", "a\x00b"):
        with pytest.raises(ToolFailed, match="there is no folder"):
            calls.run(terminal, command="pwd", folder=folder)
    assert len(calls.person.asked) == 1


def test_a_person_is_asked_first_and_a_no_runs_nothing(calls: Calls, terminal: Tool) -> None:
    calls.person.yes = False
    result = calls.run(terminal, command="touch x")
    assert not result.ok
    assert "did not allow" in result.text
    assert [(each.subject, each.kind) for each in calls.person.asked] == [("touch x", "command")]
    assert list(calls.workspace.iterdir()) == []


def test_output_is_shown_while_the_command_runs(calls: Calls, terminal: Tool) -> None:
    async def main() -> None:
        os.mkfifo(calls.workspace / "gate")
        task = asyncio.create_task(calls.call(terminal, command="echo first; cat gate; echo last"))
        await until(lambda: "first" in calls.said())
        assert "last" not in calls.said()
        (calls.workspace / "gate").write_text("opened\n")
        assert (await task).text.startswith("first\nopened\nlast\n")
        assert calls.said() == "first\nopened\nlast\n"

    finish(main())


def test_a_command_gets_no_input_and_no_terminal(calls: Calls, terminal: Tool) -> None:
    assert calls.run(terminal, command="cat; test -t 0 || echo none").text.startswith("none\n")
    assert not calls.run(terminal, command="echo x > /dev/tty").ok


def test_secrets_of_the_environment_are_not_handed_on(calls: Calls, budget: ResultBudget) -> None:
    secret = {
        "OPENAI_API_KEY": "s3cret",
        "GITHUB_TOKEN": "s3cret",
        "MY_SECRET_THING": "s3cret",
        "DB_PASSWORD": "s3cret",
        "PGPASSWORD": "s3cret",
        "HOLDFAST_STORE_URL": "s3cret",
        "AWS_ACCESS_KEY_ID": "s3cret",
        "aws_session_token": "s3cret",
        "DATABASE_URL": "postgres://me:s3cret@host/db",
        "MYSQL_PWD": "s3cret",
        "GOOGLE_APPLICATION_CREDENTIALS": "s3cret",
    }
    kept = {
        "KEYBOARD": "de",
        "SSH_AUTH_SOCK": "/run/agent",
        "TOKENIZERS_PARALLELISM": "1",
        "URL": "http://h:80/a@b",
    }
    terminal = terminal_tool(child_environment({**ENVIRONMENT, **secret, **kept}), budget, calls.sandbox())
    seen = calls.run(terminal, command="env; cat /proc/$$/environ").text
    assert "s3cret" not in seen
    for name, value in kept.items():
        assert f"{name}={value}" in seen


def test_a_command_that_takes_too_long_is_ended_with_its_children(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="sleep 1000 & echo $! > a.pid; echo begun; sleep 1000", seconds=1)
    assert result.text == "begun\n[it took more than 1 s and was ended, with all it had started]"
    assert not result.ok
    assert not any(alive(pid) for pid in pids(calls.workspace, 1))


IGNORES = (
    "python3 -c 'import os,signal,time; signal.signal(15, signal.SIG_IGN); signal.signal(1, signal.SIG_IGN);"
    ' open("{name}.pid", "w").write(str(os.getpid())); time.sleep(1000)\''
)


@pytest.mark.clause("I6")
@pytest.mark.parametrize(
    ("command", "count"),
    [
        ("echo $$ > a.pid; sleep 1000", 1),
        ("trap '' TERM INT HUP; echo $$ > a.pid; while :; do sleep 0.05; done", 1),
        (IGNORES.format(name="a"), 1),
        ("sleep 1000 & echo $! > a.pid; sleep 1000 | cat & echo $! > b.pid; wait", 2),
        (f"setsid {IGNORES.format(name='a')} & wait", 1),
        ("(setsid sh -c 'echo $$ > a.pid; sleep 1000' &) ; sleep 1000", 1),
        (
            "(setsid nohup sh -c '(setsid sh -c \"echo \\$\\$ > a.pid; exec sleep 1000\" &)' &) ; sleep 1000",
            1,
        ),
    ],
    ids=[
        "plain",
        "shell ignores",
        "program ignores",
        "children",
        "left the group",
        "daemon",
        "daemon of a daemon",
    ],
)
def test_an_interrupt_ends_a_command_and_all_it_started_within_a_second(
    calls: Calls, terminal: Tool, command: str, count: int
) -> None:
    found, seconds = finish(interrupt_when(calls, terminal, command, count))
    assert len(found) == count
    assert not any(alive(pid) for pid in found)
    assert seconds < 1.0


@pytest.mark.clause("I6")
def test_a_second_interrupt_does_not_leave_processes_behind(calls: Calls, terminal: Tool) -> None:
    async def main() -> list[int]:
        task = asyncio.create_task(calls.call(terminal, command=IGNORES.format(name="a")))
        await until(lambda: bool(pids(calls.workspace, 1)))
        found = pids(calls.workspace, 1)
        task.cancel()
        await asyncio.sleep(0)  # noqa: TID251 - gives way once
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return found

    assert not any(alive(pid) for pid in finish(main()))


def test_what_a_command_leaves_in_the_background_is_ended_and_said(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="sleep 1000 & echo $! > a.pid; echo done")
    assert "done\n[exit code 0" in result.text
    assert "processes that it had left running were ended" in result.text
    (left,) = pids(calls.workspace, 1)
    assert not alive(left)


def test_a_daemon_that_left_on_purpose_outlives_a_command_that_ended_well(
    calls: Calls, terminal: Tool
) -> None:
    result = calls.run(
        terminal,
        command="setsid sh -c 'echo $$ > a.pid; exec sleep 1000' & while ! test -s a.pid; do :; done",
    )
    (daemon,) = pids(calls.workspace, 1)
    try:
        assert result.ok
        assert alive(daemon)
    finally:
        os.kill(daemon, signal.SIGKILL)


@pytest.mark.clause("I6")
def test_a_command_inside_a_command_carries_the_marks_of_both(calls: Calls, budget: ResultBudget) -> None:
    outer = {**ENVIRONMENT, "_HOLDFAST_COMMAND": "outer"}
    terminal = terminal_tool(child_environment(outer), budget, calls.sandbox())
    marks = calls.run(terminal, command="echo $_HOLDFAST_COMMAND").text.splitlines()[0]
    assert marks.startswith("outer:")
    found, _ = finish(
        interrupt_when(calls, terminal, "(setsid sh -c 'echo $$ > a.pid; sleep 1000' &) ; sleep 1000", 1)
    )
    assert not any(alive(pid) for pid in found)


@pytest.mark.slow
def test_a_flood_of_output_is_cut_and_ended_in_time(calls: Calls, tmp_path: Path) -> None:
    budget = ResultBudget(tmp_path / "kept", 2000, kept_bytes=1_000_000)
    result = calls.run(
        terminal_tool(child_environment(ENVIRONMENT), budget, calls.sandbox()), command="yes flood", seconds=1
    )
    assert len(result.text) < 3000
    assert "bytes are left out here" in result.text
    (kept,) = (tmp_path / "kept").glob("*/*.txt")
    assert kept.stat().st_size == 1_000_000
    assert len(calls.said()) < 100_000
    assert len(calls.events) < 40


def test_the_whole_of_a_long_output_can_be_read_on(
    calls: Calls, terminal: Tool, budget: ResultBudget
) -> None:
    result = calls.run(terminal, command="seq 1 5000")
    assert result.text.startswith("1\n2\n")
    assert "\n5000\n[exit code 0" in result.text
    output_id = result.text.split('id="')[1][:26]
    assert budget.read(output_id, 0, 10).text == "1\n2\n3\n4\n5\n"


def test_binary_output_and_broken_encodings_do_no_harm(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="head -c 1000 /dev/urandom; printf '\\303'; printf '\\0end'")
    assert result.text.endswith("]")
    assert "\x00" not in result.text


def test_a_command_killed_by_a_signal_says_which(calls: Calls, terminal: Tool) -> None:
    assert "[ended by SIGSEGV after" in calls.run(terminal, command="kill -SEGV $$").text


@pytest.mark.parametrize("command", ["a\x00b", "echo " + "x" * 3_000_000])
def test_a_command_that_cannot_be_started_says_why(calls: Calls, terminal: Tool, command: str) -> None:
    with pytest.raises(ToolFailed, match=r"NUL|could not be started"):
        calls.run(terminal, command=command)


@pytest.mark.parametrize("seconds", [0, -1, 10**9])
def test_the_time_has_limits(calls: Calls, terminal: Tool, seconds: int) -> None:
    with pytest.raises(ToolArgumentsInvalid, match="seconds"):
        calls.run(terminal, command="true", seconds=seconds)
