"""Which sandbox is in use, what happens when there is none, and what container engines are told."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.errors import SettingsInvalid, ToolFailed
from holdfast.core.settings import ToolSettings
from holdfast.tools.output import ResultBudget
from holdfast.tools.processes import Processes, process_tools
from holdfast.tools.sandbox import CommandRequest, ResourceLimits, SandboxOptions
from holdfast.tools.sandbox_choice import CommandSandbox, SandboxMissing, find_sandbox, probe_sandbox
from holdfast.tools.sandbox_container import Container
from holdfast.tools.sandbox_seccomp import MACHINES, seccomp_filter
from holdfast.tools.terminal import terminal_tool
from holdfast.wiring import load_settings
from tests.tools.call_fixtures import Calls, finish, until

pytestmark = [pytest.mark.timeout(60), pytest.mark.clause("S2")]
NOWHERE = SandboxOptions(program_folders=())

ENGINE = """#!/bin/sh
printf '%s\\0' "$@" >> {log}; printf '\\n\\0' >> {log}
[ "$1" = image ] && {image}
[ "$1" = version ] && {version}
[ "$1" = run ] || exit 0
for last; do :; done
exec /bin/sh -c "$last"
"""


def engine(folder: Path, name: str, image: str = "exit 0", version: str = "exit 0") -> SandboxOptions:
    """A stand-in for a container engine that writes down what it is told, and runs commands itself."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(ENGINE.format(log=folder / "log", image=image, version=version))
    program.chmod(0o755)
    return SandboxOptions(program_folders=(str(folder),))


def told(folder: Path) -> list[list[str]]:
    calls: list[list[str]] = [[]]
    for word in (folder / "log").read_text().split("\0")[:-1]:
        if word == "\n":
            calls.append([])
        else:
            calls[-1].append(word)
    return calls[:-1]


@pytest.mark.parametrize("kind", ["bubblewrap", "docker", "podman"])
def test_a_sandbox_that_was_asked_for_and_is_not_there_refuses_commands_before_anybody_is_asked(
    calls: Calls, tmp_path: Path, kind: str
) -> None:
    sandbox = calls.sandbox(kind, NOWHERE)
    budget = ResultBudget(tmp_path / "kept", 2000)

    async def deliver(session_id: str, message: str) -> None:
        """Nothing ends here."""

    processes = Processes({}, budget, deliver, sandbox)
    start = next(each for each in process_tools(processes, budget) if each.name == "start_process")
    for tool in (terminal_tool({}, budget, sandbox), start):
        with pytest.raises(
            ToolFailed, match=f"nothing was run.*{kind}.*not installed.*HOLDFAST_TOOLS_SANDBOX"
        ):
            calls.run(tool, command="touch x")
    assert calls.person.asked == []
    assert list(calls.workspace.iterdir()) == []
    state = finish(sandbox.state())
    assert state.refusing
    assert "nothing was run" in state.text


def test_auto_runs_commands_as_they_are_where_there_is_no_sandbox_and_says_so(
    calls: Calls, tmp_path: Path
) -> None:
    sandbox = calls.sandbox("auto", NOWHERE)
    tool = terminal_tool({}, ResultBudget(tmp_path / "kept", 2000), sandbox)
    assert calls.run(tool, command="echo hello").text.startswith("hello\n")
    state = finish(sandbox.state())
    assert (state.kind, state.refusing) == ("off", False)
    assert "apt install bubblewrap" in state.text
    assert "your own rights" in state.text


def test_off_is_said(calls: Calls) -> None:
    assert "your own rights" in finish(calls.sandbox("off").state()).text


@pytest.mark.usefixtures("bubblewrap")
def test_auto_takes_bubblewrap_where_it_works(calls: Calls) -> None:
    sandbox = calls.sandbox("auto", network=False)
    state = finish(sandbox.state())
    finish(sandbox.close())
    assert state.kind == "bubblewrap"
    assert "no network" in state.text
    assert "can write only the workspace, /tmp and a home folder of their own" in state.text


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'no permissions to create new namespace' >&2; exit 1", "no permissions"),
        ("exec sleep 100", "timed out"),
    ],
    ids=["refuses", "hangs"],
)
def test_a_bubblewrap_that_does_not_work_is_found_out_in_time(tmp_path: Path, script: str, said: str) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    options = SandboxOptions(program_folders=(str(tmp_path),), probe_seconds=0.5)
    with pytest.raises(SandboxMissing, match=said):
        find_sandbox("bubblewrap", "", options)
    _, state = find_sandbox("auto", "", options)
    assert state.kind == "off"
    assert said in state.text


def test_it_is_tried_once_and_one_that_is_interrupted_does_not_end_it_for_the_others(calls: Calls) -> None:
    tries: list[object] = []
    gate = asyncio.Event()

    async def slowly(fn: object, *arguments: object) -> object:
        tries.append(fn)
        await gate.wait()
        return fn(*arguments)  # type: ignore[operator]

    async def main() -> None:
        sandbox = CommandSandbox(ToolSettings(sandbox="off"), slowly)
        first, second = asyncio.ensure_future(sandbox.state()), asyncio.ensure_future(sandbox.state())
        await until(lambda: bool(tries))
        first.cancel()
        gate.set()
        assert (await second).kind == "off"
        await sandbox.state()
        assert len(tries) == 1

    finish(main())


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_a_container_is_told_everything_that_holds_a_command(tmp_path: Path, name: str) -> None:
    workspace, own = tmp_path / "work space", tmp_path / "work space" / "own"
    own.mkdir(parents=True)
    (workspace / "token").write_text("x")
    options = SandboxOptions(
        network=False,
        limits=ResourceLimits(512, 64, 9),
        hidden=(own, workspace / "token"),
        readable=(Path("/usr/share"),),
    )
    container = Container("docker" if name == "docker" else "podman", f"/usr/bin/{name}", "image:1", options)
    environment = {"PATH": "/secret/bin", "LANG": "C.UTF-8", "OTHER": "x", "TERM": "dumb"}
    launch = container.launch(CommandRequest("echo 'a b'", workspace, workspace, environment, "c1"))
    words = list(launch.argv)
    assert words[:2] == [f"/usr/bin/{name}", "run"]
    at = words.index("image:1")
    flags, inner = words[:at], words[at + 1 :]
    assert inner[0] == "-c"
    assert inner[-1] == "echo 'a b'"
    for pair in (
        *(["--cap-drop", "ALL"], ["--security-opt", "no-new-privileges"], ["--network", "none"]),
        *(["--memory", "512m"], ["--pids-limit", "64"], ["--pull", "never"], ["--workdir", str(workspace)]),
        *(["--entrypoint", "/bin/sh"], ["--env", "LANG=C.UTF-8"], ["--ipc", "private"]),
        ["--user", f"{os.geteuid()}:{os.getegid()}"],
        ["--mount", f"type=bind,source={workspace},destination={workspace}"],
        ["--mount", f"type=tmpfs,destination={own},tmpfs-mode=0500"],
        ["--mount", f"type=bind,source=/dev/null,destination={workspace / 'token'},readonly"],
        ["--mount", "type=bind,source=/usr/share,destination=/usr/share,readonly"],
    ):
        assert any(flags[i : i + 2] == pair for i in range(len(flags))), pair
    assert {"--rm", "--init", "--read-only"} <= set(flags)
    assert not any("OTHER" in each or "/secret/bin" in each for each in words)
    assert launch.kill[:3] == (f"/usr/bin/{name}", "rm", "--force")
    assert launch.kill[3] == flags[flags.index("--name") + 1]
    container.close()


def test_a_path_that_engines_would_take_apart_is_refused(tmp_path: Path) -> None:
    for name in ("a,b", 'a"b', "a\nb"):
        workspace = tmp_path / name
        workspace.mkdir()
        container = Container("docker", "/usr/bin/docker", "image", SandboxOptions())
        with pytest.raises(ToolFailed, match="Nothing was run"):
            container.launch(CommandRequest("true", workspace, workspace, {}, "c1"))
        container.close()


def test_commands_run_through_an_engine_and_an_interrupt_removes_the_container(
    calls: Calls, tmp_path: Path
) -> None:
    options = engine(tmp_path / "engine", "docker")
    sandbox = calls.sandbox("docker", options, image="image:1")
    tool = terminal_tool({"PATH": "/usr/bin:/bin"}, ResultBudget(tmp_path / "kept", 2000), sandbox)

    async def main() -> None:
        assert (await calls.call(tool, command="echo hello; exit 3")).text.startswith("hello\n[exit code 3")
        task = asyncio.create_task(calls.call(tool, command="echo up; sleep 1000"))
        await until(lambda: "up" in calls.said())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.close()

    finish(main())
    words = told(tmp_path / "engine")
    assert [each[0] for each in words] == ["version", "image", "run", "run", "rm"]
    assert words[1] == ["image", "inspect", "image:1"]
    assert words[-1] == ["rm", "--force", words[-2][words[-2].index("--name") + 1]]


def test_an_image_that_is_not_there_is_said_with_the_way_to_it(tmp_path: Path) -> None:
    options = engine(tmp_path, "podman", image="exit 1")
    with pytest.raises(SandboxMissing, match="podman pull image:1"):
        find_sandbox("podman", "image:1", options)
    options = engine(tmp_path, "podman", version="{ echo 'no daemon' >&2; exit 1; }")
    state = probe_sandbox(ToolSettings(sandbox="podman"), replace(options))
    assert state.refusing
    assert "no daemon" in state.text


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_of_system_calls_is_whole(machine: str) -> None:
    code = seccomp_filter(machine)
    assert len(code) % 8 == 0
    lines = len(code) // 8
    for at in range(lines):
        yes, no = code[at * 8 + 2], code[at * 8 + 3]
        assert at + 1 + max(yes, no) < lines or at == lines - 1
    assert seccomp_filter("another") == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_TOOLS_SANDBOX", "jail"),
        ("HOLDFAST_TOOLS_SANDBOX_READABLE", '["relative"]'),
        ("HOLDFAST_TOOLS_SANDBOX_WRITABLE", "/not/json"),
        ("HOLDFAST_TOOLS_SANDBOX_IMAGE", "--privileged"),
        ("HOLDFAST_TOOLS_SANDBOX_PROCESSES", "-1"),
    ],
)
def test_a_setting_that_does_not_fit_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=name):
        load_settings({name: value})
