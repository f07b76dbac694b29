"""The editor's own files and terminals, over the real process and the SDK's client side."""

import asyncio

import pytest
from acp import schema
from acp.helpers import text_block

from holdfast.process import run as run_async
from holdfast.sessions import SessionDB
from holdfast.tools.file_history import FileHistory
from holdfast.tools.kept_contents import FILE_HISTORY, MEGABYTE, KeptContents
from tests.acp.editor_client import editor, project
from tests.acp.full_editor import OFFERS, FullEditor
from tests.cli.real_terminal import PATIENCE, Home

pytestmark = pytest.mark.slow

READ = {"tool": "read_file", "arguments": {"path": "notes.txt"}}
EDIT = {"tool": "edit_file", "arguments": {"path": "notes.txt", "old": "typed", "new": "edited"}}
SAY = {"tool": "run_command", "arguments": {"command": "echo $TERM-$EDITORS_API_KEY-$OUR_API_KEY"}}
LONG = {"tool": "run_command", "arguments": {"command": "echo begun; (setsid sleep 300 &) ; sleep 300"}}


def test_unsaved_text_is_read_edits_go_through_the_editor_and_commands_run_in_its_terminal(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    home = Home(tmp_path_factory.mktemp("editor"))
    home.settings |= {
        "HOLDFAST_MEMORY_PROVIDERS": "",
        "HOLDFAST_TOOLS_SANDBOX": "off",
        "OUR_API_KEY": "ours",
        "EDITORS_API_KEY": "inherited",
    }
    home.script([READ, EDIT, SAY, "Done.", LONG])
    session_id = run_async(_work(home))
    with SessionDB(home.database) as db:
        history = FileHistory(db, KeptContents(home.folder / "data" / "holdfast" / FILE_HISTORY, MEGABYTE))
        (changed,) = history.changes(session_id)
        assert changed.diff.splitlines()[-2:] == ["-typed, not saved", "+edited, not saved"]
        assert [each.outcome for each in history.undo(session_id)] == ["restored"]
    assert (home.project / "notes.txt").read_text() == "typed, not saved\n"


async def _work(home: Home) -> str:
    notes = home.project / "notes.txt"
    notes.write_text("on disk\n")
    client = FullEditor()
    client.buffers[str(notes.resolve())] = "typed, not saved\n"
    async with editor(home, client, OFFERS) as (_, agent, process):
        sid = (await agent.new_session(cwd=project(home), mcp_servers=[])).session_id
        await agent.prompt(session_id=sid, prompt=[text_block("work")])
        # One read for each of the two tools, and nothing is read again to write it.
        assert client.requests[:3] == ["read notes.txt", "read notes.txt", "write notes.txt"]
        assert notes.read_text() == "edited, not saved\n"
        results = repr(client.of(schema.ToolCallProgress))
        assert "typed, not saved" in results
        # The command has the environment of every command: no secret of the editor's reaches it.
        assert client.outputs["term-1"] == "dumb--\n"
        assert "terminal_id='term-1'" in results
        assert client.requests[-1] == "release term-1"
        assert client.state_of("run_command")[-1] == "completed"

        waiting = asyncio.create_task(agent.prompt(session_id=sid, prompt=[text_block("wait")]))
        await client.until(lambda: "begun" in client.outputs.get("term-2", ""))
        await agent.cancel(session_id=sid)
        assert (await waiting).stop_reason == "cancelled"
        assert client.requests[-2:] == ["kill term-2", "release term-2"]
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        return str(sid)
