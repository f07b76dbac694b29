"""Tries MCP with programs of others and writes down the outcome: `python -m tools.mcp_peers --write`.

Three servers (two from PyPI, one from npm) are used as tools, and one is killed in the middle of a call. Then
`holdfast mcp serve` is asked by the official inspector in its command-line form. The outcome is a table in
docs/mcp.md.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import psutil

from holdfast.core.errors import ToolFailed
from holdfast.core.events import Event, ToolOutput
from holdfast.core.settings import McpServerSettings
from holdfast.process import DaemonPool, off_loop, run
from holdfast.sessions import SessionDB
from holdfast.tools.contract import Tool, ToolContext, ToolResult
from holdfast.tools.mcp import McpServers
from tests.cli.real_terminal import COMMAND, Home
from tests.tools.call_fixtures import ScriptedPerson
from tools.bootstrap import ROOT
from tools.peers import EVERYTHING, GIT, INSPECTOR, TIME, Peer, between, command

PAGE = ROOT / "docs" / "mcp.md"
MARK = "peers"
PATIENCE = 120.0
Check = Callable[["OpenServer"], Awaitable[str]]


class OpenServer:
    """One server of others as tools, and what it printed while a call ran."""

    def __init__(self, servers: McpServers, context: ToolContext, events: list[Event]) -> None:
        self._servers = servers
        self._context = context
        self.events = events

    @property
    def tools(self) -> dict[str, Tool]:
        return {each.name: each for each in self._servers.tools}

    async def call(self, tool: str, /, **arguments: object) -> ToolResult:
        async with asyncio.timeout(PATIENCE):
            return await self.tools[tool].run(self._context, dict(arguments))

    def progress(self) -> list[str]:
        return [each.text for each in self.events if isinstance(each, ToolOutput)]


async def with_server(peer: Peer, name: str, folder: Path, check: Check, args: Sequence[str] = ()) -> str:
    """Use a server as tools; what was seen."""
    program, *words = command(peer)
    settings = McpServerSettings(name=name, command=program, args=(*words, *args), trusted=True)
    pool = DaemonPool("mcp", workers=2, backlog=10)
    work = partial(off_loop, pool)
    events: list[Event] = []
    context = ToolContext("s", "t", "c", folder, ScriptedPerson(), events.append, work)
    servers = McpServers([settings], folder)
    try:
        problems = await servers.open(work)
        if problems:
            return "; ".join(problems)
        return await check(OpenServer(servers, context, events))
    finally:
        await servers.close()
        pool.close(0)


async def check_git(server: OpenServer) -> str:
    repository = str(ROOT)
    found = await server.call("git__git_log", repo_path=repository, max_count=1)
    require("commit" in found.text.lower(), found.text)
    wrong = await server.call("git__git_log", repo_path="/nowhere")
    require(not wrong.ok, wrong.text)
    return (
        f"{len(server.tools)} tools; `git_log` reads this repository; a wrong path is a failed call, in words"
    )


async def check_time(server: OpenServer) -> str:
    found = await server.call(
        "time__convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"
    )
    require("21:00" in found.text, found.text)
    return f"{len(server.tools)} tools; `convert_time`: noon in UTC is 21:00 in Tokyo"


async def check_everything(server: OpenServer) -> str:
    require("Echo: hello" in (await server.call("all__echo", message="hello")).text, "no echo")
    picture = await server.call("all__get-tiny-image")
    pictured = "a picture" if picture.pictures else "a picture, which is not shown: its checksum is wrong"
    require(bool(picture.pictures) or "not a whole PNG" in picture.text, picture.text)
    structured = await server.call("all__get-structured-content", location="Chicago")
    require("temperature" in structured.text, structured.text)
    await server.call("all__trigger-long-running-operation", duration=2, steps=4)
    require(len(server.progress()) >= 2, "no progress")  # noqa: PLR2004 - more than one report
    listed = await server.call("all__resources")
    require("://" in listed.text, listed.text)
    prompt = await server.call("all__prompts", name="simple-prompt")
    require(bool(prompt.text), "no prompt")
    seen = f"echo, structured content, progress, resources, a prompt, and {pictured}"
    return f"{len(server.tools)} tools; {seen}"


async def check_killed(server: OpenServer) -> str:
    """`kill -9` in the middle of a call."""
    running = asyncio.create_task(server.call("all__trigger-long-running-operation", duration=600, steps=600))
    async with asyncio.timeout(PATIENCE):
        while not server.progress():  # noqa: ASYNC110 - it is another process that goes on
            await asyncio.sleep(0.05)
    victims = [
        each for each in psutil.Process().children(recursive=True) if "everything" in str(each.cmdline())
    ]
    require(bool(victims), "the server was not found")
    for each in victims:
        each.send_signal(signal.SIGKILL)
    try:
        await running
    except ToolFailed as failure:
        said = str(failure)
    else:
        raise AssertionError("the call went on")
    require("not known" in said, said)
    require(
        "Echo: again" in (await server.call("all__echo", message="again")).text, "it was not started again"
    )
    return f"the call fails: “{said}”; the next call starts the server again and is answered"


def require(holds: bool, found: str) -> None:
    if not holds:
        raise AssertionError(found)


def inspected(folder: Path) -> list[tuple[str, str]]:
    """What the inspector gets from `holdfast mcp serve`."""
    home = Home(folder)
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    home.script(["It is 42."])
    home.database.parent.mkdir(parents=True, exist_ok=True)
    with SessionDB(home.database) as db:
        db.create_session("harbour", source="cli")
        db.sessions.append_message("harbour", {"role": "user", "content": "the harbour opens at six"})
    serve = [sys.executable, *COMMAND, "mcp", "serve", "--allow", "ask"]
    file = folder / "inspector.json"
    entry = {"command": serve[0], "args": serve[1:], "env": home.environment(), "type": "stdio"}
    file.write_text(json.dumps({"mcpServers": {"holdfast": entry}}), encoding="utf-8")
    asked: list[tuple[str, list[str], str]] = [
        ("`tools/list`", ["--method", "tools/list"], "search_sessions"),
        (
            "`tools/call search_sessions`",
            ["--method", "tools/call", "--tool-name", "search_sessions", "--tool-arg", "query=harbour"],
            "six",
        ),
        (
            "`tools/call ask`",
            ["--method", "tools/call", "--tool-name", "ask", "--tool-arg", "question=what is it"],
            "It is 42.",
        ),
        ("`resources/list`", ["--method", "resources/list"], "holdfast://sessions"),
        ("`resources/templates/list`", ["--method", "resources/templates/list"], "{session}"),
        (
            "`resources/read`",
            ["--method", "resources/read", "--uri", "holdfast://sessions/harbour"],
            "opens at six",
        ),
    ]
    begin = [*command(INSPECTOR), "--cli", "--config", str(file), "--server", "holdfast"]
    return [(name, _asked(begin, words, expected, home)) for name, words, expected in asked]


def _asked(begin: list[str], words: list[str], expected: str, home: Home) -> str:
    node = Path(begin[0]).parent
    environment = {**home.environment(), "PATH": f"{node}{os.pathsep}{home.environment()['PATH']}"}
    ran = subprocess.run(
        [*begin, *words],
        env=environment,
        cwd=home.project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if ran.returncode == 0 and expected in ran.stdout:
        return "yes"
    return f"no: exit code {ran.returncode}; {' '.join((ran.stderr or ran.stdout).split())[-300:]}"


def played() -> str:
    """Everything, as the tables of the document."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "work").mkdir()
        work = folder / "work"
        rows = [
            (GIT.label, outcome(with_server(GIT, "git", work, check_git))),
            (TIME.label, outcome(with_server(TIME, "time", work, check_time))),
            (EVERYTHING.label, outcome(with_server(EVERYTHING, "all", work, check_everything, ["stdio"]))),
            (
                "the same, `kill -9` in the middle of a call",
                outcome(with_server(EVERYTHING, "all", work, check_killed, ["stdio"])),
            ),
        ]
        asked = inspected(folder / "home")
    servers = ["| server | what was seen |", "|---|---|", *(f"| {name} | {seen} |" for name, seen in rows)]
    inspector = [
        f"{INSPECTOR.label}, `--cli`, asks `holdfast mcp serve --allow ask`:",
        "",
        "| request | answered as it must be |",
        "|---|---|",
        *(f"| {name} | {seen} |" for name, seen in asked),
    ]
    return "\n".join([*servers, "", *inspector])


def outcome(work: Awaitable[str]) -> str:
    """What was seen, or what went wrong, on one line."""

    async def main() -> str:
        return await work

    try:
        return run(main())
    except Exception as problem:  # noqa: BLE001 - the table says what it was
        return f"**failed**: {' '.join(f'{type(problem).__name__}: {problem}'.split())[:300]}"


def main() -> int:
    table = played()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), MARK, table), encoding="utf-8")
    print(table)
    return 1 if "**failed**" in table or "| no: " in table else 0


if __name__ == "__main__":
    sys.exit(main())
