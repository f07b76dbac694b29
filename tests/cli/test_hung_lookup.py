"""A name that the network never answers for: the program still stops when it is told to."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from holdfast.core.clock import SystemClock
from tests.cli.real_terminal import COMMAND, PATIENCE, Home
from tests.hanging_lookup import ADDRESS, hanging_lookup

pytestmark = [pytest.mark.slow, pytest.mark.clause("X5")]  # each starts a program


@pytest.fixture(params=["openai", "anthropic"])
def hung(home: Home, request: pytest.FixtureRequest) -> Home:
    """A person whose model's address is never found."""
    environment, _ = hanging_lookup(home.folder)
    home.settings |= environment | {
        "HOLDFAST_MODEL_PROVIDER": request.param,
        "HOLDFAST_MODEL_BASE_URL": ADDRESS,
        "HOLDFAST_MODEL_NAME": "gpt-5-mini",
        "OPENAI_API_KEY": "sk-none",
        "ANTHROPIC_API_KEY": "sk-none",
        "HOLDFAST_MODEL_CONTEXT_WINDOW": "100000",
        "HOLDFAST_MEMORY_PROVIDERS": "",
        "HOLDFAST_EXIT_WATCHDOG_S": "600",
    }
    return home


def looked_up(home: Home) -> None:
    """Wait until the lookup hangs."""
    clock = SystemClock()
    deadline = clock.monotonic() + 4 * PATIENCE  # a client's library is imported first
    while not Path(home.settings["LOOKED_UP"]).exists():
        assert clock.monotonic() < deadline, "nobody looked the name up"
        clock.wait(threading.Event(), 0.01)


@contextmanager
def started(home: Home, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, *COMMAND, *arguments],
        env=home.environment(),
        cwd=home.project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A shell's background job would start with Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.soak_cases("anthropic-15")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_question_ends(hung: Home, signum: signal.Signals) -> None:
    with started(hung, "ask", "all well?") as asking:
        looked_up(hung)
        asking.send_signal(signum)
        assert asking.wait(PATIENCE) == 128 + signum


@pytest.mark.soak_cases("anthropic-15")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_chat_ends(hung: Home, signum: signal.Signals) -> None:
    terminal = hung.terminal("chat")
    terminal.see("ready")
    terminal.type("all well?")
    looked_up(hung)
    terminal.process.kill(signum)
    assert terminal.end() == 128 + signum


@pytest.mark.soak_cases("anthropic-15")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_server_ends(hung: Home, signum: signal.Signals) -> None:
    with started(hung, "web", "--port", "0") as server:
        assert server.stdout is not None
        link = server.stdout.readline().strip()
        with httpx2.Client(follow_redirects=True, timeout=PATIENCE) as browser:
            browser.get(link)
            base = link.partition("?")[0]
            said = browser.post(f"{base}api/sessions", json={"message": {"text": "all well?"}})
            assert said.status_code < 300, said.text
            looked_up(hung)
            # Others are served meanwhile.
            assert browser.get(f"{base}healthz").status_code == 200
        server.send_signal(signum)
        assert server.wait(PATIENCE) == 128 + signum
