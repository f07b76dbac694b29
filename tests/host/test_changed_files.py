"""What a conversation did to files is shown by turn, and taken back with its messages, on either engine."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import AgentOptions
from holdfast.core.errors import SessionNotFound, TurnNotFound
from holdfast.host import SessionHost
from holdfast.sessions import SessionDB
from holdfast.testing.scripted_model import Call
from holdfast.tools.contract import ApprovalRequest, ToolContext
from holdfast.tools.file_history import FileHistory
from holdfast.tools.files import Files
from holdfast.tools.kept_contents import KeptContents
from holdfast.tools.opened_file import OpenedFiles
from tests.agent.agent_fixtures import a_tool, until
from tests.host.host_fixtures import host_parts

Wait = Callable[[Awaitable[Any]], Any]
SCRIPT = [
    Call("write_file", {"path": "a.txt", "text": "one\n"}),
    "written",
    [
        Call("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
        Call("write_file", {"path": "b.txt", "text": "new\n"}),
    ],
    "edited",
    Call("edit_file", {"path": "a.txt", "old": "two", "new": "three"}),
    "edited again",
]


def test_files_are_taken_back_with_the_messages_also_in_a_copy_of_the_conversation(
    db: SessionDB, wait: Wait, tmp_path: Path
) -> None:
    history = FileHistory(db, KeptContents(tmp_path / "kept", 1_000_000))
    workspace = tmp_path / "work"
    workspace.mkdir()
    a, b = workspace / "a.txt", workspace / "b.txt"

    def at_work(script: list[Any]) -> SessionHost:
        parts = host_parts(
            db,
            script,
            tools=Files(opened=OpenedFiles(history)).tools(),
            agent_options=AgentOptions(workspace=workspace),
        )
        return SessionHost(replace(parts, file_history=history))

    async def scenario() -> None:
        async with at_work(SCRIPT) as host:
            turns = [(await host.ask("s", text)).turn_id for text in ("first", "second", "third")]
            assert {each.path: (each.kind, each.added) for each in await host.files.changes("s")} == {
                "a.txt": ("created", 1),
                "b.txt": ("created", 1),
            }
            assert await host.files.changed_turns("s") == turns
            [third] = await host.files.changes("s", turns[2])
            assert third.diff.splitlines()[-2:] == ["-two", "+three"]
            for session, turn in (("s", "nothing"), ("s", "")):
                with pytest.raises(TurnNotFound):
                    await host.files.changes(session, turn)
            with pytest.raises(SessionNotFound):
                await host.files.changes("nowhere")
            # A turn in the middle can't be taken back where a later one went on from it.
            left = {each.path: each.outcome for each in await host.files.undo("s", turns[1])}
            assert left == {"a.txt": "left", "b.txt": "removed"}

            undone = await host.undo("s", files=True, key="k")
            assert (undone.text, [each.outcome for each in undone.files]) == ("third", ["restored"])
            assert (await host.undo("s", files=True, key="k")).session_id == undone.session_id
            assert a.read_text() == "two\n"
            assert await host.files.changed_turns(undone.session_id) == turns[:2]
            again = await host.undo(undone.session_id, files=True)
            assert again.text == "second"
            assert {each.path: each.outcome for each in again.files} == {"a.txt": "restored"}
            assert (a.read_text(), b.exists()) == ("one\n", False)
            assert [each.message["content"] for each in await host.records.messages(again.session_id)] == [
                "first",
                "",
                "created a.txt (4 bytes)",
                "written",
            ]
            # Without the files, only the messages are taken back; deleting drops what is kept.
            last = await host.undo(again.session_id)
            assert (last.files, a.exists()) == ((), True)
            await host.delete("s", force=True)
            assert await host.files.changes(last.session_id) == []

    wait(scenario())


def test_only_the_host_that_runs_a_turn_tells_what_is_in_the_file_that_it_is_about_to_write(
    store_url: str, wait: Wait, tmp_path: Path
) -> None:
    def a_workspace(name: str) -> AgentOptions:
        (tmp_path / name).mkdir()
        return AgentOptions(workspace=tmp_path / name)

    # The same disk serves both, so the test tells who reads it, not what is on it.
    async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
        return str(await context.person.approve(ApprovalRequest(str(tmp_path / "here" / "a.txt"), "write")))

    script = [Call("write"), "not written"]

    async def scenario() -> None:
        with SessionDB.open(store_url) as db, SessionDB.open(store_url) as other_db:
            parts = host_parts(db, script, tools=[a_tool("write", run)], agent_options=a_workspace("here"))
            (tmp_path / "here" / "a.txt").write_text("old")
            other_parts = host_parts(other_db, agent_options=a_workspace("there"))
            async with SessionHost(parts) as here, SessionHost(other_parts) as there:
                await here.send("s", "write")
                await until(lambda: db.get_session("s") is not None and bool(db.asks.open("s")))
                (asked,) = await there.overview.asks("s")
                assert await there.files.text_before("s", asked.ask_id) is None
                assert await here.files.text_before("s", asked.ask_id) == "old"
                assert await there.approve("s", asked.ask_id, "no")

    wait(scenario())
