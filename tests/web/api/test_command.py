"""`holdfast web` as a person runs it: the link, the refusals, and the way out with streams open."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from tests.web.api.api_server import frames

MAIN = "from holdfast.cli.main import main; main()"


def folders(home: Path) -> dict[str, str]:
    """The environment of a person who has set up nothing."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    own = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    return {**known, **{name: str(home) for name in own}}


@contextmanager
def command(home: Path, *arguments: str, **variables: str) -> Iterator["subprocess.Popen[str]"]:
    """The command with a scripted model, or with that of a settings file."""
    script = home / "script.json"
    script.write_text(json.dumps(["hello"] * 9), encoding="utf-8")
    (home / "project").mkdir(exist_ok=True)
    scripted = {"HOLDFAST_MODEL_PROVIDER": "scripted", "HOLDFAST_MODEL_NAME": str(script)}
    environment = {
        **folders(home),
        **({} if "HOLDFAST_SETTINGS" in variables else scripted),
        "HOLDFAST_MEMORY_PROVIDERS": "",
        **variables,
    }
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "web", "--port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=home / "project",
        # A shell's background job would start with Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.clause("X4")
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_link_opens_the_page_and_ctrl_c_ends_it_at_once_with_streams_open(
    tmp_path: Path, signum: signal.Signals
) -> None:
    async def scenario() -> None:
        with command(tmp_path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            link = process.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:")
            async with httpx2.AsyncClient(follow_redirects=True, timeout=20) as browser:
                assert "text/html" in (await browser.get(link)).headers["content-type"]
                base = link.partition("?")[0]
                session = (await browser.post(f"{base}api/sessions", json={})).json()["id"]
                async with browser.stream("GET", f"{base}api/sessions/{session}/events") as answer:
                    events = frames(answer)
                    await anext(events)
                    begun = time.monotonic()
                    process.send_signal(signum)
                    assert [each async for each in events] == []
                assert process.wait(20) == 128 + signum
                assert time.monotonic() - begun < 15
            assert "shutting down" in process.stderr.read()
        token = tmp_path / "holdfast" / "web-token"
        assert token.stat().st_mode & 0o777 == 0o600
        assert token.read_text() in link

    asyncio.run(asyncio.wait_for(scenario(), 100))


@pytest.mark.slow
def test_an_address_that_others_can_reach_refuses_to_start_without_authentication(tmp_path: Path) -> None:
    with command(tmp_path, "--host", "0.0.0.0") as process:  # noqa: S104 - it refuses
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert "HOLDFAST_WEB_AUTHENTICATION=token" in said
    assert "Nothing was started" in said
