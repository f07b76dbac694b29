"""A server at its limit of open files: it says so, goes on with what it has, and recovers."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from tests.sessions.databases import PostgresPlace
from tests.sessions.store_fixtures import until

pytestmark = [pytest.mark.slow, pytest.mark.clause("X5")]

MAIN = "from holdfast.cli.main import main; main()"
RUN = {"tool": "run_command", "arguments": {"command": "ulimit -Sn; echo it runs"}}
DEADLINE = 200.0
Reading = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextmanager
def server(home: Path, soft: int, hard: int, *options: str, **settings: str) -> Iterator[str]:
    """`holdfast web` with these limits of open files; gives its link."""
    project, script = home / "project", home / "script.json"
    project.mkdir()
    script.write_text(json.dumps([RUN, "Done."]), encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    environment = {
        **known,
        **{name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
        "HOLDFAST_MODEL_PROVIDER": "scripted",
        "HOLDFAST_MODEL_NAME": str(script),
        "HOLDFAST_TOOLS_APPROVAL": "never-ask",
        "HOLDFAST_WEB_REQUESTS_PER_S": "100000",
        **settings,
    }
    limits = f"ulimit -Sn {soft} && ulimit -Hn {hard} && exec"
    with subprocess.Popen(
        ["sh", "-c", f'{limits} "$@"', "sh", sys.executable, "-c", MAIN, "web", "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=project,
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()  # its workers end too, since their pipe ends


async def open_stream(link: str) -> tuple[int, str, Reading]:
    """Ask for the events of all conversations; the status and the head of the answer."""
    base, _, token = link.partition("?token=")
    port = httpx2.URL(base).port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        head = f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n"
        writer.write(head.encode())
        await writer.drain()
    said = (await reader.readuntil(b"\r\n\r\n")).decode()
    return int(said.split()[1]), said.lower(), (reader, writer)


async def many_streams(link: str, number: int) -> tuple[list[Reading], list[str]]:
    """The streams that were opened, and the heads of the refusals."""
    opened, refused = [], []
    for _ in range(number // 50):
        for status, head, reading in await asyncio.gather(*(open_stream(link) for _ in range(50))):
            if status == 200:
                opened.append(reading)
            else:
                refused.append(head)
                reading[1].close()
    return opened, refused


async def what_the_command_said(browser: httpx2.AsyncClient, base: str) -> str:
    """Run a turn with a command in it, and give its result."""
    begun = await browser.post(f"{base}api/sessions", json={"message": {"text": "run it"}})
    assert begun.status_code == 201, begun.text
    place = f"{base}api/sessions/{begun.json()['id']}/messages"
    never = asyncio.Event()
    while True:
        said = [each["message"] for each in (await browser.get(place)).json()["items"]]
        if said and said[-1].get("content") == "Done.":
            return str(next(each["content"] for each in said if each["role"] == "tool"))
        with suppress(TimeoutError):
            await asyncio.wait_for(never.wait(), 0.1)


def logged(home: Path) -> str:
    return "".join(file.read_text() for file in home.rglob("holdfast.log*"))


def test_a_soft_limit_is_raised_and_commands_get_the_one_that_was_given(tmp_path: Path) -> None:
    async def scenario() -> None:
        with server(tmp_path, 128, 1024) as link:
            opened, refused = await many_streams(link, 300)
            assert (len(opened), refused) == (300, [])
            async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
                await browser.get(link)
                result = await what_the_command_said(browser, link.partition("?")[0])
            assert "128\nit runs" in result
            for _, writer in opened:
                writer.close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


def test_a_full_server_says_so_runs_its_tools_and_recovers(tmp_path: Path) -> None:
    async def scenario() -> None:
        with server(tmp_path, 256, 256) as link:
            base = link.partition("?")[0]
            async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
                await browser.get(link)
                opened, refused = await many_streams(link, 600)
                assert len(opened) >= 80
                assert len(opened) + len(refused) == 600
                assert all(head.startswith("http/1.1 503") and "retry-after: " in head for head in refused)
                # Who is connected is served, and a tool has what it needs.
                assert "256\nit runs" in await what_the_command_said(browser, base)
                for _, writer in opened:
                    writer.close()
                assert (await browser.get(f"{base}healthz")).status_code == 200
            never = asyncio.Event()
            while (again := await open_stream(link))[0] != 200:
                again[2][1].close()
                with suppress(TimeoutError):
                    await asyncio.wait_for(never.wait(), 0.1)
            again[2][1].close()

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
    log = logged(tmp_path)
    assert log.count("web.full") <= 2
    assert "out of system resource" not in log


def test_connections_that_say_nothing_are_told_and_let_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        with server(tmp_path, 256, 256) as link:
            base = link.partition("?")[0]
            port = httpx2.URL(base).port
            # More than the server may have open, and fewer than an ordinary user's 1,024 here.
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(600)]
            last, _ = silent[-1]
            assert b"503" in await last.readuntil(b"\r\n")
            for _, writer in silent:
                writer.close()
            async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
                never = asyncio.Event()
                while (await browser.get(link)).status_code != 200:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(never.wait(), 0.1)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
    log = logged(tmp_path)
    assert log.count("web.full") == 1
    assert "out of system resource" not in log


@pytest.mark.parametrize("options", [(), ("--workers", "2")], ids=["one process", "workers"])
def test_whatever_a_server_starts_gets_the_limit_that_was_given(
    tmp_path: Path, postgres: str, options: tuple[str, ...]
) -> None:
    place = PostgresPlace(postgres)
    told, programs = tmp_path / "told", tmp_path / "programs"
    programs.mkdir()
    # Where a person has programs of their own: `npx` and `uvx` are often there.
    (programs / "tells").write_text(f"#!/bin/sh\nulimit -Sn >{told}; exec cat\n", encoding="utf-8")
    (programs / "tells").chmod(0o700)
    known = {
        "HOLDFAST_STORE_URL": place.url,
        "HOLDFAST_TOOLS_MCP_SERVERS": json.dumps([{"name": "tells", "command": "tells"}]),
        "PATH": f"{programs}:{os.environ['PATH']}",
    }

    async def scenario() -> None:
        with server(tmp_path, 128, 1024, *options, **known) as link:
            async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
                await browser.get(link)
                result = await what_the_command_said(browser, link.partition("?")[0])
            assert "128\nit runs" in result
            until(lambda: told.exists() and told.read_text() == "128\n")

    try:
        asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
    finally:
        place.drop()
