"""SIGKILL in mid-stream: a server that is started again has everything that was acknowledged."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.web.api.api_server import BEARER, frames

DEADLINE = 100.0


@contextmanager
def a_process(folder: Path, port: int = 0) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    command = [sys.executable, "-m", "tests.web.api.server_process", str(folder), str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


async def some_text(http: httpx2.AsyncClient, session: str) -> tuple[str, str]:
    """A part of the answer that is being given, and the number of its last event."""
    text, last = "", ""
    async with http.stream("GET", f"/api/sessions/{session}/events?after=0") as answer:
        async for event in frames(answer):
            last = event["id"]
            text += event["text"] if event["kind"] == "TextDelta" else ""
            if len(text) > 300:
                return text, last
    raise AssertionError("the stream ended")


@pytest.mark.slow
@pytest.mark.clause("D10", "I1")
def test_a_server_that_is_killed_in_mid_stream_and_started_again_has_lost_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        with a_process(tmp_path) as (process, url):
            port = int(url.rpartition(":")[2])
            async with httpx2.AsyncClient(base_url=url, headers=BEARER, timeout=20) as http:
                session = (await http.post("/api/sessions", json={})).json()["id"]
                await http.post(f"/api/sessions/{session}/send", json={"text": "count"})
                text, last = await some_text(http, session)
                waits = await http.post(f"/api/sessions/{session}/send", json={"text": "and then?"})
                assert waits.status_code == 202
                process.kill()
                process.wait()
        with a_process(tmp_path, port) as (_, url):
            async with httpx2.AsyncClient(base_url=url, headers=BEARER, timeout=20) as http:
                headers = {"Last-Event-ID": last}
                async with http.stream("GET", f"/api/sessions/{session}/events", headers=headers) as answer:
                    first = await anext(frames(answer))
                # The number is of the server's earlier life: where the session stands comes first.
                assert first["kind"] == "SessionSnapshot"
                detail = await _unfinished(http, session)
                assert detail["unfinished"]["said"] == "count"
                saved = detail["unfinished"]["partial"]
                assert text.startswith(saved) or saved.startswith(text[:100])
                assert saved
                kept = [each["message"]["content"] for each in detail["waiting_messages"]]
                assert kept == ["and then?"]
                assert (await http.post(f"/api/sessions/{session}/resume")).status_code == 202
                messages = await _answered(http, session)
                assert messages[0] == "count"
                assert any(str(each).startswith("0 1 2 3") for each in messages[1:])

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


async def _unfinished(http: httpx2.AsyncClient, session: str) -> dict[str, Any]:
    """The session once the dead process's lease has run out."""
    while True:
        detail: dict[str, Any] = (await http.get(f"/api/sessions/{session}")).json()
        if detail["unfinished"] is not None:
            return detail


async def _answered(http: httpx2.AsyncClient, session: str) -> list[Any]:
    while True:
        page = (await http.get(f"/api/sessions/{session}/messages")).json()["items"]
        answers = [each for each in page if each["message"]["role"] == "assistant"]
        if answers and str(answers[-1]["message"]["content"]).rstrip().endswith("399"):
            return [each["message"]["content"] for each in page]
