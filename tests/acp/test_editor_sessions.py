"""A working session in an editor, with the real process and the SDK's own client side."""

import asyncio
import json
import sys

import pytest
from acp import schema
from acp.helpers import embedded_text_resource, image_block, resource_block, text_block

from holdfast.process import DaemonPool, off_loop
from holdfast.process import run as run_async
from holdfast.sessions import SessionDB
from tests.acp.editor_client import EditorClient, editor, project, refusal
from tests.cli.real_terminal import COMMAND, PATIENCE, Home, run

# Each test is several processes.
pytestmark = pytest.mark.slow

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
WRITE = {"tool": "write_file", "arguments": {"path": "greeting.txt", "text": "hi\n"}}
EDIT = {"tool": "edit_file", "arguments": {"path": "greeting.txt", "old": "hi", "new": "hello"}}
PLAN = {"tool": "todo", "arguments": {"items": [{"text": "greet", "state": "done"}, {"text": "leave"}]}}
ASKED = {"tool": "run_command", "arguments": {"command": "echo asked-for"}}
LONG = {"tool": "run_command", "arguments": {"command": "echo begun; sleep 120"}}


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("editor"))
    made.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    return made


def test_a_working_session_survives_cancel_and_kill_and_goes_on_elsewhere(home: Home) -> None:
    home.script(
        [
            [{"reasoning": "A file, then."}, "First a file.", WRITE],
            EDIT,
            PLAN,
            ASKED,
            "All done.",
            LONG,
            ["Half an answer, ", 120],
        ]
    )
    session_id = run_async(_work_until_killed(home))
    home.script(["and the other half.", "Begun in an editor."])
    run_async(_load_and_continue(home, session_id))
    assert home.said()[1:] == ["wait", "tell me", "what next?", "and here?"]


async def _work_until_killed(home: Home) -> str:
    async with editor(home) as (client, agent, process):
        opened = await agent.new_session(cwd=project(home), mcp_servers=[])
        sid = opened.session_id
        assert opened.modes.current_mode_id == "ask"
        assert [each.id for each in opened.modes.available_modes] == ["ask", "fenced", "read-only"]
        context = resource_block(embedded_text_resource("file:///notes.txt", "be kind"))
        said = await agent.prompt(
            session_id=sid, prompt=[text_block("greet "), context, image_block(PIXEL, "image/png")]
        )
        assert said.stop_reason == "end_turn"
        _check_first_turn(home, client)
        # The words of the prompt are the editor's own: it is not told them again.
        assert client.text(schema.UserMessageChunk) == ""

        waiting = asyncio.create_task(agent.prompt(session_id=sid, prompt=[text_block("wait")]))
        await client.until(lambda: "begun" in repr(client.of(schema.ToolCallProgress)))
        await agent.cancel(session_id=sid)
        assert (await waiting).stop_reason == "cancelled"

        cut_off = asyncio.create_task(agent.prompt(session_id=sid, prompt=[text_block("tell me")]))
        await client.until(lambda: "Half an answer," in client.text())
        await _until_saved(home, "Half an answer,")
        process.kill()
        with pytest.raises(ConnectionError):
            await cut_off
        return str(sid)


def _check_first_turn(home: Home, client: EditorClient) -> None:
    assert client.text(schema.AgentThoughtChunk) == "A file, then."
    assert client.text() == "First a file.All done."
    assert (home.project / "greeting.txt").read_text() == "hello\n"
    path = str((home.project / "greeting.txt").resolve())
    calls = client.of(schema.ToolCallStart)
    assert [each.kind for each in calls] == ["edit", "edit", "execute"]
    assert [each.locations[0].path for each in calls[:2]] == [path, path]
    diffs = [(each.content[0].old_text, each.content[0].new_text) for each in calls[:2]]
    assert diffs == [(None, "hi\n"), ("hi", "hello")]
    assert client.state_of("echo asked-for")[-1] == "completed"
    (plan,) = client.of(schema.AgentPlanUpdate)
    assert [(each.content, each.status) for each in plan.entries] == [
        ("greet", "completed"),
        ("leave", "pending"),
    ]
    ((call, options),) = client.asked
    assert "echo asked-for" in repr(call.content)
    assert [each.kind for each in options] == ["allow_once", "allow_always", "reject_once"]
    commands = client.of(schema.AvailableCommandsUpdate)[0].available_commands
    assert "compact" in [each.name for each in commands]


async def _until_saved(home: Home, words: str) -> None:
    """The text that streams is on disk twice a second."""

    def look() -> bool:
        with SessionDB(home.database) as db:
            return any(words in db.turns.partial(each.id) for each in db.turns.unfinished())

    pool = DaemonPool("look", workers=1, backlog=1)
    async with asyncio.timeout(PATIENCE):
        while not await off_loop(pool, look):
            pass
    pool.close(0)


async def _load_and_continue(home: Home, session_id: str) -> None:
    with SessionDB(home.database) as db:
        db.create_session("request-of-a-client", source="api")
    async with editor(home) as (client, agent, _):
        listed = (await agent.list_sessions(cwd=project(home))).sessions
        assert [each.session_id for each in listed] == [session_id]
        await agent.load_session(cwd=project(home), session_id=session_id, mcp_servers=[])
        await client.until(lambda: "cut off by a crash" in client.text())
        shown = client.text()
        for words in ("First a file.", "All done.", "Half an answer,", "cut off by a crash"):
            assert shown.count(words) == 1, words
        users = client.text(schema.UserMessageChunk)
        assert [users.count(each) for each in ("greet", "be kind", "wait", "tell me")] == [1, 1, 1, 1]
        assert len(client.of(schema.ToolCallStart)) == len(
            {each.tool_call_id for each in client.of(schema.ToolCallStart)}
        )
        assert client.state_of("greeting.txt") == ["pending", "pending", "completed", "completed"]
        assert (
            await agent.prompt(session_id=session_id, prompt=[text_block("/continue")])
        ).stop_reason == "end_turn"
        assert client.text().endswith("and the other half.")
        await agent.prompt(session_id=session_id, prompt=[text_block("what next?")])
        assert client.text().endswith("Begun in an editor.")
        await _go_on_in_a_terminal(home, client, session_id)


async def _go_on_in_a_terminal(home: Home, client: EditorClient, session_id: str) -> None:
    """The editor shows it, with the words of the person at the terminal."""
    home.script(["Gone on with in a terminal."])
    pool = DaemonPool("terminal", workers=1, backlog=1)
    asked = await off_loop(pool, lambda: run(home, "ask", "--session", session_id, "and here?"))
    pool.close(0)
    assert asked.stdout == "Gone on with in a terminal.\n"
    await client.until(lambda: "Gone on with in a terminal." in client.text())
    assert client.text().count("Gone on with in a terminal.") == 1
    assert client.text(schema.UserMessageChunk).count("and here?") == 1


def test_modes_refusals_and_a_client_that_vanishes(home: Home) -> None:
    home.script([WRITE, ASKED, "I could not.", LONG])
    session_id = run_async(_refused_then_gone(home))
    with SessionDB(home.database) as db:
        assert db.turns.unfinished() == []
        branch, original = db.conversations.list()
        said = [str(each.message.get("content")) for each in db.sessions.read(branch.session.id)]
    assert original.root_id == session_id
    # What was taken back is not in the branch, and what was stopped is kept.
    assert said[0] == "wait"


async def _refused_then_gone(home: Home) -> str:
    async with editor(home) as (client, agent, process):
        assert (await refusal(agent.new_session(cwd="not/absolute", mcp_servers=[]))).code == -32602
        missing = await refusal(agent.load_session(cwd=project(home), session_id="none", mcp_servers=[]))
        assert missing.code == -32002
        sid = (await agent.new_session(cwd=project(home), mcp_servers=[])).session_id
        wrong = await refusal(agent.set_session_mode(session_id=sid, mode_id="anything"))
        assert "ask, fenced, read-only" in str(wrong)
        await agent.set_session_mode(session_id=sid, mode_id="read-only")
        await agent.prompt(session_id=sid, prompt=[text_block("write it")])
        assert client.asked == []
        assert not (home.project / "greeting.txt").exists()
        await agent.prompt(session_id=sid, prompt=[text_block("/status")])
        assert "mode: read-only" in client.text()
        await agent.prompt(session_id=sid, prompt=[text_block("/undo")])
        assert "Taken back: write it" in client.text()

        await agent.set_session_mode(session_id=sid, mode_id="ask")
        task = asyncio.create_task(agent.prompt(session_id=sid, prompt=[text_block("wait")]))
        await client.until(lambda: "begun" in repr(client.of(schema.ToolCallProgress)))
        # The editor vanishes: its end of the pipe is closed.
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        task.cancel()
        return str(sid)


@pytest.mark.clause("S1")
def test_a_home_folder_as_workspace_is_said_before_anything_is_asked(home: Home) -> None:
    home.script(["Hello."])

    async def talk() -> None:
        async with editor(home) as (client, agent, _):
            said = f"{home.folder} is a home folder, so the agent asks about every file in it."
            sid = (await agent.new_session(cwd=str(home.folder), mcp_servers=[])).session_id
            await client.until(lambda: said in client.text())
            await agent.prompt(session_id=sid, prompt=[text_block("hello")])
            assert client.text().count(said) == 1
            assert client.text().endswith("Hello.")
            before = len(client.text())
            await agent.load_session(cwd=str(home.folder), session_id=sid, mcp_servers=[])
            await client.until(lambda: said in client.text()[before:])
            client.updates.clear()
            await agent.new_session(cwd=project(home), mcp_servers=[])
            await client.until(lambda: client.of(schema.AvailableCommandsUpdate))
            assert client.text() == ""

    run_async(talk())


def test_the_settings_of_an_editor_start_this_command(home: Home) -> None:
    printed = run(home, "acp", "--print-config", "zed")
    assert json.loads(printed.stdout)["agent_servers"]["Holdfast"]["args"] == ["acp"]
    assert "settings.json" in printed.stderr


def test_lines_that_are_no_messages_are_answered_and_skipped(home: Home) -> None:
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}
    wrong = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": 5}}
    odd = [
        b"not json",
        b"[]",
        b"7",
        b'{"id": [1], "result": 1}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "no/such"}',
    ]
    given = b"\n".join([*odd, json.dumps(wrong).encode(), json.dumps(hello).encode(), b""])

    async def talk() -> list[dict[str, object]]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *COMMAND,
            "acp",
            env=home.environment(),
            cwd=home.project,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(given)
        async with asyncio.timeout(PATIENCE):
            lines = [await process.stdout.readline() for _ in range(len(odd) + 2)]
            process.stdin.close()
            assert await process.wait() == 0
            assert await process.stdout.read() == b""
        return [json.loads(line) for line in lines]

    answers = run_async(talk())
    codes = [each["error"]["code"] for each in answers if "error" in each]  # type: ignore[index]
    assert sorted(codes) == [-32700, -32602, -32601, -32600, -32600, -32600]
    assert [each["id"] for each in answers if "result" in each] == [1]
    (words,) = [each["error"]["message"] for each in answers if each.get("id") == 2]  # type: ignore[index]
    assert "cwd" in words
