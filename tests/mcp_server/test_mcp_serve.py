"""`holdfast mcp serve` as a real process, with the official client: over pipes and over HTTP."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents

from holdfast import SessionDB

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
MAIN = "from holdfast.cli.main import main; main()"


def environment(home: Path) -> dict[str, str]:
    script = home / "script.json"
    call = {"name": "search_sessions", "arguments": {"query": "harbour"}}
    script.write_text(json.dumps([call, "it is 42", "as I said, 42"]), encoding="utf-8")
    (home / "project").mkdir(exist_ok=True)
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    own = ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
    return {
        **known,
        **{name: str(home) for name in own},
        "HOLDFAST_STORE_URL": f"sqlite:///{home}/holdfast.db",
        "HOLDFAST_MODEL_PROVIDER": "scripted",
        "HOLDFAST_MODEL_NAME": str(script),
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with SessionDB(tmp_path / "holdfast.db") as db:
        db.create_session("harbour", source="test")
        db.sessions.append_message("harbour", {"role": "user", "content": "the harbour opens at six"})
        db.create_session("request", source="api")
        db.sessions.append_message("request", {"role": "user", "content": "the harbour of a client"})
        db.create_session("other", source="test", scope="somebody")
        db.sessions.append_message("other", {"role": "user", "content": "the harbour of somebody else"})
    return tmp_path


def said(result: CallToolResult) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


def test_another_agent_reads_remembers_and_asks_over_pipes(home: Path) -> None:
    async def main() -> None:
        everything = [word for each in ("remember", "forget", "ask") for word in ("--allow", each)]
        server = StdioServerParameters(
            command=sys.executable,
            args=["-c", MAIN, "mcp", "serve", *everything],
            env=environment(home),
            cwd=home / "project",
        )
        async with Client(server) as client:
            names = {each.name for each in (await client.list_tools()).tools}
            reading = {"search_sessions", "list_sessions", "read_session", "recall"}
            assert names == reading | {"remember", "forget", "ask"}

            found = said(await client.call_tool("search_sessions", {"query": "harbour"}))
            assert "opens at six" in found.replace("*", "")
            assert "somebody" not in found
            assert "client" not in found
            listed = said(await client.call_tool("list_sessions", {}))
            assert ("opens at six" in listed, "client" in listed) == (True, False)
            assert "opens at six" in said(await client.call_tool("read_session", {"session": "harbour"}))
            refused = await client.call_tool("read_session", {"session": "other"})
            assert refused.is_error
            (page,) = (await client.read_resource("holdfast://sessions/harbour")).contents
            assert isinstance(page, TextResourceContents)
            assert "opens at six" in page.text

            assert "saved" in said(await client.call_tool("remember", {"text": "the key is under the mat"}))
            recalled = await client.call_tool("recall", {"query": "where is the key"})
            assert recalled.structured_content is not None
            note = next(each for each in recalled.structured_content["found"] if "mat" in each["text"])
            done = await client.call_tool("forget", {"id": note["id"], "provider": note["provider"]})
            assert "done" in said(done)
            assert "mat" not in said(await client.call_tool("recall", {"query": "where is the key"}))

            told: list[str | None] = []

            async def hear(progress: float, total: float | None, message: str | None) -> None:
                del progress, total
                told.append(message)

            question = {"question": "what is it?", "key": "first"}
            answer = await client.call_tool("ask", question, progress_callback=hear)
            assert answer.structured_content is not None
            assert answer.structured_content["answer"] == "it is 42"
            assert "uses search_sessions" in told
            again = await client.call_tool("ask", question)
            assert again.structured_content == answer.structured_content
            session = answer.structured_content["session"]
            more = await client.call_tool("ask", {"question": "really?", "session": session})
            assert "as I said, 42" in said(more)

    asyncio.run(main())


@contextmanager
def served(
    home: Path, open_files: int = 1024, **settings: str
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    limited = ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh"]
    command = [*limited, sys.executable, "-c", MAIN, "mcp", "serve", "--http", "--port", "0"]
    with subprocess.Popen(
        command,
        env=environment(home) | settings,
        cwd=home / "project",
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            address = next(line.split()[-1] for line in lines if "is an MCP server on" in line)
            next(line for line in lines if "Bearer" in line)
            yield process, address
        finally:
            process.kill()


def test_over_http_nothing_is_open_without_the_token_and_only_reading_is_offered(home: Path) -> None:
    async def main(address: str, token: str) -> None:
        async with httpx2.AsyncClient(timeout=20) as stranger:
            for shown in ({}, {"Authorization": "Bearer wrong"}):
                for path in ("", "/", "/../mcp"):
                    answer = await stranger.post(address + path, json={}, headers=shown)
                    assert answer.status_code == 401
                    assert "Nothing was done" in answer.text
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            names = {each.name for each in (await client.list_tools()).tools}
            assert names == {"search_sessions", "list_sessions", "read_session", "recall"}
            found = await client.call_tool("search_sessions", {"query": "six"})
            assert "harbour" in said(found)

    with served(home) as (process, address):
        (file,) = home.rglob("mcp-token")
        assert file.stat().st_mode & 0o077 == 0
        asyncio.run(main(address, file.read_text()))
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


NAME = "mcp.example.org"
PROXIED = {"Host": NAME, "X-Forwarded-Proto": "https", "X-Forwarded-Host": NAME}
BEHIND = {"HOLDFAST_WEB_ALLOWED_HOSTS": NAME, "HOLDFAST_WEB_TRUSTED_PROXIES": "127.0.0.1"}


@pytest.mark.clause("S5")
@pytest.mark.parametrize(
    ("settings", "sent", "status"),
    [
        ({}, {}, 200),
        ({}, PROXIED, 421),
        (BEHIND, PROXIED, 200),
        (BEHIND, PROXIED | {"Origin": f"https://{NAME}"}, 200),
        (BEHIND, PROXIED | {"Origin": "https://elsewhere.example"}, 403),
        (BEHIND, {"Host": "elsewhere.example"}, 421),
        (BEHIND | {"HOLDFAST_WEB_TRUSTED_PROXIES": ""}, PROXIED | {"Origin": f"https://{NAME}"}, 403),
        (
            BEHIND | {"HOLDFAST_WEB_ALLOWED_ORIGINS": "https://a.example"},
            {"Origin": "https://a.example"},
            200,
        ),
    ],
)
def test_a_proxy_with_tls_may_stand_in_front_once_it_is_named(
    home: Path, settings: dict[str, str], sent: dict[str, str], status: int
) -> None:
    known = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": known}
    with served(home, 1024, **settings) as (_, address):
        (file,) = home.rglob("mcp-token")
        shown = {
            "Authorization": f"Bearer {file.read_text()}",
            "Accept": "application/json, text/event-stream",
        }
        answer = httpx2.post(address, json=begin, headers=shown | sent, timeout=60)
        assert answer.status_code == status, answer.text
        if status == 200:
            assert httpx2.post(address, json=begin, headers=sent, timeout=60).status_code == 401


@pytest.mark.clause("X5")
def test_connections_that_say_nothing_are_told_and_leave_the_server_its_files(home: Path) -> None:
    async def main(address: str, token: str) -> None:
        where = httpx2.URL(address)
        silent = [await asyncio.open_connection(where.host, where.port) for _ in range(400)]
        assert b"503" in await silent[-1][0].readuntil(b"\r\n")
        for _, writer in silent:
            writer.close()
        answer = httpx2.Response(503)
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=20) as client:
            while answer.status_code == 503:  # until the server has seen that they are closed
                answer = await client.post(address, json={})
        assert answer.status_code < 500

    with served(home, 256) as (_, address):
        (file,) = home.rglob("mcp-token")
        asyncio.run(asyncio.wait_for(main(address, file.read_text()), 60))


def test_a_signal_ends_the_server_though_its_client_is_silent(home: Path) -> None:
    command = [sys.executable, "-c", MAIN, "mcp", "serve"]
    with subprocess.Popen(
        command, env=environment(home), cwd=home / "project", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "holdfast"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM
