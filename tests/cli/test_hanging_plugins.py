"""Commands with a memory plugin that never answers: each comes up without it, or ends when it is told to."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast import SessionDB
from tests.cli.real_terminal import COMMAND, PATIENCE, Home, run
from tests.providers.hanging_plugin import AT_THE_START, Plugin

pytestmark = pytest.mark.slow  # each starts a command, most of them on a terminal of its own

MakeHome = Callable[..., Home]


@pytest.fixture
def with_plugin(home: Home, tmp_path: Path) -> Iterator[MakeHome]:
    made: list[Plugin] = []

    def make(*hangs: str) -> Home:
        made.append(Plugin(tmp_path / "plugin", *hangs))
        home.settings["HOLDFAST_MEMORY_PLUGINS"] = str(made[-1].plugins)
        home.settings["HOLDFAST_MEMORY_START_S"] = "0.5"
        home.script(["Noted.", "Again."])
        return home

    yield make
    for each in made:
        each.let_go()


@pytest.mark.clause("M10", "X4", "X5")
@pytest.mark.soak_cases("^(constructor|is_available)-(1|2)-")
@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGHUP, 128 + signal.SIGHUP), (signal.SIGINT, 130)],
)
@pytest.mark.parametrize("call", ["import", "constructor", "is_available"])
def test_a_signal_ends_a_chat_whose_start_waits_for_a_plugin(
    with_plugin: MakeHome, call: str, signum: signal.Signals, code: int
) -> None:
    home = with_plugin(call)
    home.settings["HOLDFAST_MEMORY_START_S"] = "600"
    terminal = home.terminal("chat")
    # The store is there when the start has come to the plugins; before, signals are an ordinary command's.
    terminal.until(home.database.exists)
    terminal.process.kill(signum)
    assert terminal.end() == code


@pytest.mark.clause("M10", "X5", "D1")
@pytest.mark.soak_cases("^(name|constructor|get_config_schema)$")
@pytest.mark.parametrize("call", AT_THE_START)
def test_a_chat_comes_up_without_a_plugin_that_hangs_and_owes_it_its_turns(
    with_plugin: MakeHome, call: str
) -> None:
    home = with_plugin(call)
    terminal = home.terminal("chat")
    terminal.see("hanging did not answer in 0.5 s; going on without it", "ready")
    terminal.type("remember this")
    terminal.see("Noted.", "ready")
    assert terminal.leave() == 0
    terminal.see("1 turn is owed to hanging")
    with SessionDB(home.database) as db:
        assert db.outbox.backlog("hanging").owed == 1


@pytest.mark.clause("M10")
@pytest.mark.parametrize("call", ["system_prompt_block", "prefetch", "initialize"])
def test_a_chat_says_in_the_turn_that_a_plugin_did_not_answer(with_plugin: MakeHome, call: str) -> None:
    home = with_plugin(call)
    home.settings["HOLDFAST_MEMORY_RECALL_S"] = "0.5"
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("remember this")
    terminal.see("hanging did not answer in 0.5 s; going on without it", "Noted.", "ready")
    assert terminal.leave() == 0


@pytest.mark.clause("M10", "X5")
@pytest.mark.soak_cases("^(name|constructor|is_available|get_config_schema|check)$")
@pytest.mark.parametrize("call", [*AT_THE_START, "check", "shutdown"])
def test_every_other_command_answers_with_a_plugin_that_hangs(with_plugin: MakeHome, call: str) -> None:
    home = with_plugin(call)
    asked = run(home, "ask", "hello")
    assert (asked.returncode, asked.stdout.strip()) == (0, "Noted.")
    said = "hanging did not answer in 0.5 s; going on without it"
    assert (said in asked.stderr) == (call in AT_THE_START)
    if call == "check":
        return  # its deadline is longer than a test waits
    status = run(home, "memory")
    assert status.returncode == 0, status.stderr
    assert (said in status.stdout) == (call in AT_THE_START)
    checkup = run(home, "doctor")
    assert (said in checkup.stdout) == (call in AT_THE_START)


@pytest.mark.clause("M10", "X5")
def test_a_search_ends_although_another_provider_hangs_at_its_end(with_plugin: MakeHome) -> None:
    home = with_plugin("shutdown")
    home.settings["HOLDFAST_MEMORY_START_S"] = str(PATIENCE)
    run(home, "ask", "hello")
    found = run(home, "memory", "search", "hello", "--provider", "local")
    assert found.returncode == 0, found.stderr


@pytest.mark.clause("M10", "X5")
@pytest.mark.soak_cases("^(name|constructor|is_available|get_config_schema)$")
@pytest.mark.parametrize("call", AT_THE_START)
def test_setting_up_a_plugin_that_hangs_ends_and_says_so(with_plugin: MakeHome, call: str) -> None:
    ended = run(with_plugin(call), "memory", "setup", "hanging")
    if call == "get_tool_schemas":
        assert ended.returncode == 0
        return
    assert ended.returncode not in (0, 1)
    assert "did not answer in" in ended.stderr


@pytest.mark.clause("M10", "X5")
@pytest.mark.parametrize("call", ["import", "is_available"])
def test_a_server_comes_up_without_a_plugin_that_hangs_and_ends_on_sigterm(
    with_plugin: MakeHome, call: str
) -> None:
    home = with_plugin(call)
    workspace = home.folder / "work"
    workspace.mkdir()
    home.settings["HOLDFAST_TOOLS_WORKSPACE"] = str(workspace)
    with subprocess.Popen(
        [sys.executable, *COMMAND, "web", "--port", "0"],
        env=home.environment(),
        cwd=home.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as server:
        assert server.stdout is not None
        lines = []
        for line in server.stdout:
            lines.append(line)
            if "http://" in line:
                break
        assert any("hanging did not answer in 0.5 s; going on without it" in line for line in lines), lines
        server.terminate()
        assert server.wait(PATIENCE) == 128 + signal.SIGTERM
