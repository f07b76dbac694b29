"""Commands in a sandbox behave as they do without one: output, exit codes, interrupts, what they leave."""

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.tools.contract import Tool
from holdfast.tools.environment import child_environment
from holdfast.tools.output import ResultBudget
from holdfast.tools.processes import Processes, process_tools
from holdfast.tools.sandbox_choice import CommandSandbox
from holdfast.tools.terminal import terminal_tool
from tests.tools.call_fixtures import Calls, finish, until
from tests.tools.live_processes import carrying

pytestmark = [pytest.mark.timeout(120), pytest.mark.usefixtures("bubblewrap"), pytest.mark.clause("S2")]


@pytest.fixture
def sandbox(calls: Calls) -> Iterator[CommandSandbox]:
    made = calls.sandbox("bubblewrap")
    yield made
    finish(made.close())


@pytest.fixture
def terminal(calls: Calls, sandbox: CommandSandbox, tmp_path: Path) -> Tool:
    environment = child_environment({"PATH": os.environ["PATH"], "HOME": "/home/somebody"})
    return terminal_tool(environment, ResultBudget(tmp_path / "kept", 2000), sandbox)


@pytest.fixture
def tag(tmp_path: Path) -> str:
    """A number that only this test's commands carry; `sleep` takes it for seconds."""
    return f"1000.{abs(hash(str(tmp_path))) % 10**12:012}"


def test_a_command_says_what_it_printed_and_how_it_ended(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="pwd; echo oops >&2; exit 3")
    assert result.text.startswith(f"{calls.workspace}\noops\n[exit code 3 after ")
    assert "it ran in a sandbox" in result.text
    assert not result.ok
    good = calls.run(terminal, command="true")
    assert good.ok
    assert good.text.startswith("(no output)\n[exit code 0 after ")
    assert "sandbox" not in good.text


@pytest.mark.parametrize("name", ["SEGV", "TERM", "KILL", "ABRT"])
def test_a_command_killed_by_a_signal_says_which(calls: Calls, terminal: Tool, name: str) -> None:
    assert f"[ended by SIG{name} after" in calls.run(terminal, command=f"kill -{name} $$").text


def test_a_folder_in_path_that_cannot_be_looked_at_is_left_out(
    calls: Calls, sandbox: CommandSandbox, tmp_path: Path
) -> None:
    # Root may look everywhere, but not at a name this long.
    path = os.pathsep.join(["/" + "x" * 5000, "/usr/bin", "/bin"])
    environment = child_environment({"PATH": path, "HOME": "/home/somebody"})
    terminal = terminal_tool(environment, ResultBudget(tmp_path / "kept", 2000), sandbox)
    assert calls.run(terminal, command="echo fine").text.startswith("fine\n")


def test_it_runs_in_a_folder_of_the_workspace(calls: Calls, terminal: Tool) -> None:
    (calls.workspace / "a b\nc").mkdir()
    result = calls.run(terminal, command='touch here; basename "$PWD"', folder="a b\nc")
    assert result.ok
    assert (calls.workspace / "a b\nc" / "here").exists()


def test_output_is_shown_while_the_command_runs(calls: Calls, terminal: Tool) -> None:
    async def main() -> None:
        os.mkfifo(calls.workspace / "gate")
        task = asyncio.create_task(calls.call(terminal, command="echo first; cat gate; echo last"))
        await until(lambda: "first" in calls.said())
        assert "last" not in calls.said()
        (calls.workspace / "gate").write_text("opened\n")
        assert (await task).text.startswith("first\nopened\nlast\n")

    finish(main())


def test_a_command_gets_no_input_and_no_terminal(calls: Calls, terminal: Tool) -> None:
    assert calls.run(terminal, command="cat; test -t 0 || echo none").text.startswith("none\n")
    assert not calls.run(terminal, command="echo x > /dev/tty").ok


def test_commands_of_one_conversation_share_tmp_and_home_and_nobody_else_does(
    calls: Calls, terminal: Tool, sandbox: CommandSandbox, tmp_path: Path
) -> None:
    assert calls.run(terminal, command="echo mine > /tmp/note; echo mine > ~/note").ok
    assert calls.run(terminal, command="cat /tmp/note ~/note /var/tmp/note").text.startswith(
        "mine\nmine\nmine\n"
    )
    other = finish(Calls(calls.workspace, calls.pool, session_id="s2").call(terminal, command="ls -A /tmp ~"))
    assert "note" not in other.text
    assert not Path("/tmp/note").exists()
    finish(sandbox.close())
    assert "note" not in calls.run(terminal, command="ls -A /tmp").text


def test_what_a_command_leaves_behind_is_ended_and_said(calls: Calls, terminal: Tool, tag: str) -> None:
    result = calls.run(terminal, command=f"sleep {tag} & setsid sleep {tag} & echo done")
    assert "done\n[exit code 0" in result.text
    assert "processes that it had left running were ended" in result.text
    assert carrying(tag) == []


def test_a_filter_in_the_background_may_finish(calls: Calls, terminal: Tool) -> None:
    result = calls.run(terminal, command="{ echo one; echo two; } > >(sleep 0.05; tee log)")
    assert (calls.workspace / "log").read_text() == "one\ntwo\n"
    assert "left running" not in result.text


def test_a_command_that_takes_too_long_is_ended_with_its_children(
    calls: Calls, terminal: Tool, tag: str
) -> None:
    result = calls.run(terminal, command=f"sleep {tag} & echo begun; sleep {tag}", seconds=1)
    assert result.text.startswith("begun\n[it took more than 1 s and was ended, with all it had started")
    assert carrying(tag) == []


def test_a_command_that_is_asked_to_end_may_clean_up(calls: Calls, terminal: Tool) -> None:
    result = calls.run(
        terminal,
        command="trap 'echo bye > cleaned; exit' TERM; echo begun; while :; do sleep 0.02; done",
        seconds=1,
    )
    assert not result.ok
    assert (calls.workspace / "cleaned").read_text() == "bye\n"


IGNORES = (
    "python3 -c 'import signal,time; [signal.signal(n, signal.SIG_IGN) for n in (1,2,15)];"
    ' print("up", flush=True); time.sleep({tag})\''
)


@pytest.mark.clause("I6")
@pytest.mark.parametrize(
    "command",
    [
        "echo up; sleep {tag}",
        "trap '' TERM INT HUP; echo up; while :; do sleep 0.05; : {tag}; done",
        IGNORES,
        f"setsid {IGNORES} & wait",
        "sleep {tag} & sleep {tag} | cat & echo up; wait",
        "(setsid sh -c 'echo up; sleep {tag}' &) ; sleep {tag}",
        "(env -i setsid nohup sh -c '(env -i setsid sh -c \"echo up; exec sleep {tag}\" &)' &) ; sleep {tag}",
    ],
    ids=["plain", "shell ignores", "program ignores", "left the group", "children", "daemon", "wiped daemon"],
)
def test_an_interrupt_ends_a_command_and_all_it_started_within_a_second(
    calls: Calls, terminal: Tool, tag: str, command: str
) -> None:
    async def main() -> float:
        task = asyncio.create_task(calls.call(terminal, command=command.replace("{tag}", tag)))
        await until(lambda: "up" in calls.said())
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seconds = time.monotonic() - begun
        await until(lambda: carrying(tag) == [])
        return seconds

    assert finish(main()) < 1.0


@pytest.mark.clause("I6")
def test_a_second_interrupt_leaves_nothing_behind(calls: Calls, terminal: Tool, tag: str) -> None:
    async def main() -> None:
        task = asyncio.create_task(calls.call(terminal, command=IGNORES.replace("{tag}", tag)))
        await until(lambda: "up" in calls.said())
        task.cancel()
        await asyncio.sleep(0)  # noqa: TID251 - gives way once
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: carrying(tag) == [])

    finish(main())


def test_no_descriptor_is_left_open(calls: Calls, terminal: Tool) -> None:
    calls.run(terminal, command="true")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        calls.run(terminal, command="false")
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_background_processes_are_read_stopped_and_ended_with_their_agent(
    calls: Calls, sandbox: CommandSandbox, tmp_path: Path, tag: str
) -> None:
    delivered: list[str] = []

    async def deliver(session_id: str, message: str) -> None:
        delivered.append(message)

    async def main() -> None:
        budget = ResultBudget(tmp_path / "background", 2000)
        environment = child_environment({"PATH": os.environ["PATH"]})
        processes = Processes(environment, budget, deliver, sandbox)
        tools = {each.name: each for each in process_tools(processes, budget)}
        await calls.call(tools["start_process"], command=f"echo up; exec sleep {tag}")
        await calls.call(tools["start_process"], command="echo bad; exit 4")
        await until(lambda: delivered != [])
        assert "exit code 4" in delivered[0]
        assert "bad" in delivered[0]
        await until(lambda: processes.get("p1", "").spool.size > 0)
        assert "up" in (await calls.call(tools["read_process"], id="p1")).text
        assert (await calls.call(tools["stop_process"], id="p1")).text.startswith("p1: ended by SIGTERM")
        assert carrying(tag) == []
        await calls.call(tools["start_process"], command=f"setsid sleep {tag} & exec sleep {tag}")
        await until(lambda: len(carrying(tag)) > 1)
        await processes.close()
        await until(lambda: carrying(tag) == [])

    finish(main())
