"""The tools of real MCP servers, on pipes and on HTTP, and what becomes of broken ones."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, cast

import pytest
from mcp_types import (
    CreateMessageRequestParams,
    ElicitRequestFormParams,
    SamplingMessage,
    TextContent,
)
from mcp_types import Tool as McpTool

from holdfast.core.errors import ToolFailed
from holdfast.core.settings import McpServerSettings
from holdfast.tools.contract import Tool
from holdfast.tools.mcp import McpServers, offered_name
from holdfast.tools.mcp_requests import ActiveCall, McpRequests
from holdfast.tools.mcp_schemas import usable_tools
from tests.tools.call_fixtures import LONG, Calls, finish, until
from tests.tools.live_processes import alive, pids
from tests.tools.workers.rich_mcp_server import PIXEL

pytestmark = pytest.mark.timeout(120)
SERVER = Path(__file__).parent / "workers" / "mcp_server.py"
RICH = Path(__file__).parent / "workers" / "rich_mcp_server.py"
PICTURE = f"data:image/png;base64,{PIXEL}"


def on_pipes(name: str = "srv", **more: object) -> McpServerSettings:
    return McpServerSettings.model_validate(
        {"name": name, "command": sys.executable, "args": [str(SERVER)], "trusted": True, **more}
    )


class Servers:
    """Servers that are open for the length of a block."""

    def __init__(self, calls: Calls, *settings: McpServerSettings) -> None:
        async def complete(_session: str, system: str, text: str) -> tuple[str, str]:
            return f"{system}|{text}|answered", "the model"

        self._servers = McpServers(settings, calls.workspace, complete)
        self._off_loop = calls.context().off_loop
        self.problems: list[str] = []

    async def __aenter__(self) -> Self:
        self.problems = await self._servers.open(self._off_loop)
        return self

    @property
    def tools(self) -> dict[str, Tool]:
        return {each.name: each for each in self._servers.tools}

    async def __aexit__(self, *_: object) -> None:
        await self._servers.close()
        await self._servers.close()


def test_the_tools_of_a_server_are_offered_under_its_name_and_run(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes()) as servers:
            assert servers.problems == []
            add = servers.tools["srv__add"]
            assert add.description == "Add two numbers."
            assert add.parameters["required"] == ["a", "b"]
            assert not add.changes
            assert servers.tools["srv__fail"].changes
            assert (await calls.call(add, a=2, b=3)).text == "5"
            parts = await calls.call(servers.tools["srv__parts"])
            assert parts.text.startswith("words\ufffd\n(image, image/png, 3 bytes, not shown: its data")
            assert parts.pictures == ()
            assert (
                await calls.call(servers.tools[offered_name("srv", "odd.name/" + "x" * 80)])
            ).text == "odd"

    finish(main())


def test_what_goes_wrong_in_a_tool_is_a_failed_result(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes()) as servers:
            failed = await calls.call(servers.tools["srv__fail"])
            assert not failed.ok
            assert "no luck" in failed.text
            wrong = await calls.call(servers.tools["srv__add"], a="x")
            assert not wrong.ok
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"

    finish(main())


@pytest.mark.parametrize("protocol", ["older", "newer"])
def test_a_server_uses_everything_that_the_protocol_has(calls: Calls, protocol: str) -> None:
    """One story: pictures, data, progress, a form, the model, a list that changes, and its death."""

    async def main() -> None:
        rich = McpServerSettings(
            name="rich", command=sys.executable, args=(str(RICH), protocol), trusted=True, seconds=15
        )
        async with Servers(calls, rich) as servers:
            assert servers.problems == []

            async def call(tool: str, **arguments: object) -> str:
                return (await calls.call(servers.tools[f"rich__{tool}"], **arguments)).text

            shown = await calls.call(servers.tools["rich__picture"])
            assert (shown.text, shown.pictures) == ("(image, image/png, 69 bytes)", (PICTURE,))
            assert await call("weather") == 'sunny\n{"degrees": 21}'
            await call("count")
            assert calls.said() == "50%\n100% done\n"
            assert await call("roots") == calls.workspace.resolve().as_uri()

            calls.person.reply = "7"
            assert await call("order") == "accept 7"
            ((asked, _),) = calls.person.questions
            assert asked.startswith("rich asks: How many?")
            calls.person.reply = None
            assert (await call("order")).startswith("cancel")
            calls.person.reply = "decline"
            assert (await call("order")).startswith("decline")

            assert await call("think") == "be brief|what is it?|answered"
            assert calls.person.asked[-1].kind == "rich__sampling"
            calls.person.yes = False
            assert "was not asked" in await call("think")

            assert "text://greeting" in await call("resources")
            assert await call("resources", uri="text://greeting") == "good morning"
            assert "Say hello to Ann." in await call("prompts", name="hello", arguments={"name": "Ann"})

            await call("grow")
            await until(lambda: "rich__grown" in servers.tools)
            assert await call("grown") == "new"
            with pytest.raises(ToolFailed, match="rich was lost during the call of die"):
                await call("die")
            assert await call("weather") == 'sunny\n{"degrees": 21}'
            assert "rich__grown" not in servers.tools

    finish(main())


@pytest.mark.clause("I8")
def test_a_tool_whose_schema_would_fail_every_request_is_left_out_and_named() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"properties": {"a": deep}}
    schemas: dict[str, tuple[dict[str, Any], str]] = {
        "plain": ({"type": "object", "properties": {"a": True}, "required": ["a"]}, ""),
        "bare": ({}, ""),
        "half": ({"properties": {"a": {"description": "\ud800"}}}, ""),
        "text": ({"type": "string"}, "not that of an object"),
        "list": ({"properties": ["a"]}, "not that of an object"),
        "word": ({"properties": {"a": "string"}}, "no schema"),
        "needs": ({"required": [{}]}, "no name"),
        "number": ({"properties": {"a": {"default": float("nan")}}}, "JSON"),
        "huge": ({"description": "x" * 10_000_000}, "10,000,"),
        "deep": (deep, "recursion"),
    }
    many = [McpTool(name=f"many{n}", input_schema={"description": "x" * 31_000}) for n in range(20)]
    offered = [McpTool(name=name, input_schema=schema) for name, (schema, _) in schemas.items()]
    usable, left_out = usable_tools([*offered, *many])
    assert [tool.name for tool, _ in usable][:4] == ["plain", "bare", "half", "many0"]
    assert len(usable) < 3 + len(many)
    assert usable[1][1] == {"type": "object", "properties": {}}
    assert json.dumps(usable[2][1], ensure_ascii=False).encode()
    for (name, (_, why)), line in zip(list(schemas.items())[3:], left_out, strict=False):
        assert line.startswith(f"{name}: ")
        assert why in line
    assert "too large together" in left_out[-1]


def test_what_a_server_asks_is_shown_whole_or_short_and_never_without_a_bound(calls: Calls) -> None:
    async def complete(_session: str, system: str, text: str) -> tuple[str, str]:
        return f"{system}|{text}", "the model"

    def sampled(text: str) -> CreateMessageRequestParams:
        said = SamplingMessage(role="user", content=TextContent(text=text))
        return CreateMessageRequestParams(messages=[said], max_tokens=9, system_prompt="be brief")

    async def main() -> None:
        requests, context, nobody = (
            McpRequests("srv", calls.workspace, complete),
            calls.context(),
            cast("Any", None),
        )
        async with asyncio.timeout(60) as limit:
            with requests.during(ActiveCall(context, limit, 60)):
                field = {"type": "string", "description": "y" * 9_000, "enum": [str(n) for n in range(9_000)]}
                form = {"type": "object", "properties": {"a": field}, "required": ["a"]}
                calls.person.reply = "8999"
                asked = ElicitRequestFormParams(message="x" * 1_000_000, requested_schema=form)
                answered = await requests.elicit(nobody, asked)
                assert (answered.action, answered.content) == ("accept", {"a": "8999"})
                ((question, choices),) = calls.person.questions
                assert len(question) < 5_000
                assert question.endswith("(or decline)")
                assert len(choices) == 50

                given = await requests.sample(nobody, sampled("what is it?"))
                assert "be brief|what is it?" in str(given)
                assert calls.person.asked[-1].subject == "what is it?\n\n(with the instructions: be brief)"
                calls.person.asked.clear()
                refused = await requests.sample(nobody, sampled("x" * 200_000))
                assert "at most" in str(refused)
                assert calls.person.asked == []

    finish(main())


@pytest.mark.slow
def test_a_person_is_asked_unless_the_server_is_trusted(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes(trusted=False)) as servers:
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"
            (asked,) = calls.person.asked
            assert (asked.kind, asked.subject) == ("srv__add", '{"a": 1, "b": 1}')
            calls.person.yes = False
            assert not (await calls.call(servers.tools["srv__add"], a=1, b=1)).ok

    finish(main())


@pytest.mark.slow
def test_a_server_sees_what_is_configured_and_no_secrets(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cret")
    monkeypatch.setenv("SOMETHING_ELSE", "s3cret")

    async def main() -> None:
        async with Servers(calls, on_pipes(env={"WANTED": "yes"})) as servers:
            seen = (await calls.call(servers.tools["srv__environment"])).text
            assert "WANTED=yes" in seen
            assert "s3cret" not in seen
            names = {line.partition("=")[0] for line in seen.splitlines()}
            assert names <= {"WANTED", "HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LC_CTYPE"}

    finish(main())


BROKEN = {
    "missing": ("/no/such/program", [], "No such file"),
    "dying": (
        sys.executable,
        ["-c", "import sys; sys.stderr.write('my last words'); sys.exit(1)"],
        "my last words",
    ),
    "babbling": (sys.executable, ["-c", "print('not json at all')"], ""),
    "leaving": ("/bin/true", [], ""),
}


def test_broken_servers_are_reported_by_name_and_the_others_work(calls: Calls) -> None:
    async def main() -> None:
        broken = [
            McpServerSettings(name=name, command=command, args=tuple(args))
            for name, (command, args, _) in BROKEN.items()
        ]
        async with Servers(calls, *broken, on_pipes()) as servers:
            for (name, (_, _, said)), problem in zip(BROKEN.items(), servers.problems, strict=True):
                assert problem.startswith(f"the MCP server {name} is left out: ")
                assert said in problem
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"

    finish(main())


@pytest.mark.slow
def test_two_servers_of_one_name_do_not_hide_each_other_silently(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes(), on_pipes()) as servers:
            assert "srv__add is there already" in servers.problems[0]
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"

    finish(main())


@pytest.mark.slow
def test_a_server_that_dies_fails_the_call_and_is_started_again(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes()) as servers:
            first = (await calls.call(servers.tools["srv__whoami"])).text
            with pytest.raises(
                ToolFailed, match=r"srv was lost during the call of die.*Whether the call took effect"
            ):
                await calls.call(servers.tools["srv__die"])
            second = (await calls.call(servers.tools["srv__whoami"])).text
            assert first != second
            assert not alive(int(first))

    finish(main())


@pytest.mark.slow
def test_a_server_that_was_killed_between_calls_is_started_again(calls: Calls) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes()) as servers:
            first = int((await calls.call(servers.tools["srv__whoami"])).text)
            os.kill(first, 9)
            await until(lambda: not alive(first))
            for _ in range(2):
                with suppress(ToolFailed):
                    assert int((await calls.call(servers.tools["srv__whoami"])).text) != first
                    return
            pytest.fail("the server was not started again")

    finish(main())


@pytest.mark.slow
@pytest.mark.clause("I6")
def test_a_call_is_cancelled_at_once_and_the_server_is_told(calls: Calls, tmp_path: Path) -> None:
    async def main() -> None:
        file = tmp_path / "said"
        async with Servers(calls, on_pipes()) as servers:
            task = asyncio.create_task(calls.call(servers.tools["srv__hang"], file=str(file)))
            await until(lambda: file.exists() and file.read_text() == "begun")
            await until(lambda: "begun" in calls.said())
            begun = asyncio.get_running_loop().time()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.get_running_loop().time() - begun < 1.0
            await until(lambda: file.read_text() == "cancelled")
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"

    finish(main())


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_given_up(calls: Calls, tmp_path: Path) -> None:
    async def main() -> None:
        async with Servers(calls, on_pipes(seconds=0.5)) as servers:
            with pytest.raises(ToolFailed, match=r"srv took more than 0\.5 s for hang"):
                await calls.call(servers.tools["srv__hang"], file=str(tmp_path / "said"))
            assert (await calls.call(servers.tools["srv__add"], a=1, b=1)).text == "2"

    finish(main())


@pytest.mark.slow
def test_closing_ends_the_servers_from_any_task(calls: Calls) -> None:
    async def main() -> int:
        servers = McpServers([on_pipes()], calls.workspace)
        await asyncio.create_task(servers.open(calls.context().off_loop))
        tools = servers.tools
        pid = int((await calls.call(next(each for each in tools if each.name == "srv__whoami"))).text)
        await asyncio.create_task(servers.close())
        assert not alive(pid)
        with pytest.raises(ToolFailed, match="being closed"):
            await calls.call(tools[0], a=1, b=1)
        return pid

    assert not alive(finish(main()))


@pytest.mark.slow
def test_closing_ends_a_server_that_never_answered(calls: Calls) -> None:
    note = calls.workspace / "a.pid"

    async def main() -> None:
        silent = McpServerSettings(
            name="silent", command="/bin/sh", args=("-c", f"echo $$ > {note}; exec sleep 1000")
        )
        servers = McpServers([silent], calls.workspace)
        opening = asyncio.create_task(servers.open(calls.context().off_loop))
        await until(lambda: bool(pids(calls.workspace, 1)))
        await servers.close()
        assert await opening == ["the MCP server silent is left out: it was closed before it answered"]
        assert not any(alive(pid) for pid in pids(calls.workspace, 1))

    finish(main())


@contextmanager
def http_server(port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, str(SERVER), str(port)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(LONG)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 0.2).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_a_server_on_http_works_dies_and_works_again(calls: Calls) -> None:
    port = free_port()
    remote = McpServerSettings(
        name="web", url=f"http://127.0.0.1:{port}/mcp", trusted=True, headers={"X-A": "b"}
    )

    async def main() -> None:
        with http_server(port):
            await until(lambda: answers(port))
            servers = Servers(calls, remote)
            await servers.__aenter__()
            assert servers.problems == []
            assert (await calls.call(servers.tools["web__add"], a=2, b=3)).text == "5"
        with pytest.raises(ToolFailed, match="web"):
            await calls.call(servers.tools["web__add"], a=2, b=3)
        with http_server(port):
            await until(lambda: answers(port))
            assert (await calls.call(servers.tools["web__add"], a=2, b=4)).text == "6"
            await servers.__aexit__()

    finish(main())


def test_an_address_where_nothing_answers_is_reported(calls: Calls) -> None:
    async def main() -> None:
        remote = McpServerSettings(name="gone", url=f"http://127.0.0.1:{free_port()}/mcp")
        async with Servers(calls, remote) as servers:
            (problem,) = servers.problems
            assert problem.startswith("the MCP server gone is left out: ")

    finish(main())


@pytest.mark.parametrize("tool", ["plain", "a.b/c d", "ü", "x" * 200, ""])
def test_names_are_such_as_every_model_takes(tool: str) -> None:
    name = offered_name("srv", tool)
    assert name.startswith("srv__")
    assert name.isascii()
    assert 5 <= len(name) <= 64
