"""The built-in tools put together from the settings."""

import os
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import SettingsInvalid
from holdfast.core.settings import ToolSettings
from holdfast.sessions import SessionDB
from holdfast.tools.decorator import NAME
from holdfast.tools.toolbox import Toolbox, ToolDependencies, toolbox
from holdfast.wiring import load_settings
from tests.tools.call_fixtures import Calls, finish
from tests.tools.test_mcp import SERVER

OWN = {
    *("run_command", "start_process", "list_processes", "read_process", "stop_process"),
    *("read_file", "write_file", "edit_file", "list_folder", "find_files", "search_files"),
    *("read_output", "fetch_page", "search_sessions", "read_session"),
    *("add_schedule", "list_schedules", "remove_schedule"),
    *("read_skill", "save_skill", "todo", "ask_user"),
}

OF_THE_STORE = {"search_sessions", "read_session", "add_schedule", "list_schedules", "remove_schedule"}


async def nowhere(session_id: str, message: str) -> None:
    """A surface that takes no messages."""


def around(calls: Calls, db: SessionDB | None = None) -> ToolDependencies:
    return ToolDependencies(
        workspace=calls.workspace,
        data_folder=calls.workspace.parent / "data",
        environment=dict(os.environ),
        deliver=nowhere,
        off_loop=calls.context().off_loop,
        db=db,
    )


def names(box: Toolbox) -> set[str]:
    return {each.name for each in box.tools}


def test_all_tools_are_there_each_with_a_schema_that_a_model_can_read(calls: Calls) -> None:
    async def main() -> None:
        with SessionDB(calls.workspace.parent / "db") as db:
            box = await toolbox(ToolSettings(), around(calls, db))
            assert names(box) == OWN
            assert (box.problems, box.prompt) == ((), "")
            for each in box.tools:
                assert NAME.fullmatch(each.name)
                assert each.description
                assert each.parameters["type"] == "object"
                for argument, schema in each.parameters["properties"].items():
                    assert schema.get("description"), f"{each.name}.{argument} is not described"
            await box.close()

    finish(main())


@pytest.mark.usefixtures("bubblewrap")
def test_what_commands_left_in_their_sandbox_goes_with_the_conversation(calls: Calls) -> None:
    async def main() -> None:
        with SessionDB(calls.workspace.parent / "db") as db:
            db.create_session("s1", source="test")
            box = await toolbox(ToolSettings(sandbox="bubblewrap"), around(calls, db))
            box.forget("s1")
            run_command = next(each for each in box.tools if each.name == "run_command")
            await calls.call(run_command, command="echo private >/tmp/note; echo private >~/note")
            look = "cat /tmp/note ~/note"
            box.forget("another")
            assert "private\nprivate" in (await calls.call(run_command, command=look)).text
            box.forget("s1")
            assert "private" not in (await calls.call(run_command, command=look)).text
            await box.close()

    finish(main())


def test_without_a_store_past_conversations_are_not_offered(calls: Calls) -> None:
    async def main() -> None:
        box = await toolbox(ToolSettings(), around(calls))
        assert names(box) == OWN - OF_THE_STORE
        await box.close()
        await box.close()

    finish(main())


def test_every_result_is_cut_to_the_budget(calls: Calls) -> None:
    (calls.workspace / "data.json").write_text("{}")
    (calls.workspace / "many").mkdir()
    for number in range(400):
        (calls.workspace / "many" / f"file-{number:04}").touch()

    async def main() -> None:
        box = await toolbox(ToolSettings(result_characters=1000), around(calls))
        tools = {each.name: each for each in box.tools}
        listed = (await calls.call(tools["list_folder"], path="many")).text
        assert len(listed) < 1500
        assert "file-0000" in listed
        assert "file-0399" in listed
        output_id = listed.split('id="')[1][:26]
        assert "file-0000" in (await calls.call(tools["read_output"], id=output_id)).text
        assert box.budget.cut("s1", listed) == listed
        await box.close()

    finish(main())


def test_broken_skills_and_servers_are_said_and_the_rest_works(calls: Calls) -> None:
    broken = calls.workspace.parent / "data" / "skills" / "broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("nothing")
    (broken.parent / "good").mkdir()
    (broken.parent / "good" / "SKILL.md").write_text("---\nname: good\ndescription: To do good.\n---\n")

    async def main() -> None:
        settings = ToolSettings.model_validate({"mcp_servers": [{"name": "gone", "command": "/no/such"}]})
        box = await toolbox(settings, around(calls))
        assert [each.split(" is left out")[0] for each in box.problems] == [
            "the skill in broken",
            "the MCP server gone",
        ]
        assert "good: To do good." in box.prompt
        await box.close()

    finish(main())


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_tools_of_configured_servers_are_among_them(calls: Calls) -> None:
    async def main() -> None:
        settings = ToolSettings.model_validate(
            {
                "mcp_servers": [
                    {"name": "srv", "command": sys.executable, "args": [str(SERVER)], "trusted": True}
                ]
            }
        )
        box = await toolbox(settings, around(calls))
        add = next(each for each in box.tools if each.name == "srv__add")
        assert (await calls.call(add, a=1, b=2)).text == "3"
        await box.close()

    finish(main())


def test_a_rule_that_is_none_is_an_error_at_the_start() -> None:
    with pytest.raises(SettingsInvalid, match="KIND:PATTERN"):
        load_settings({"HOLDFAST_TOOLS_ALLOW": '["nonsense"]'})


def test_the_settings_are_read_from_the_environment(tmp_path: Path) -> None:
    settings = load_settings(
        {
            "HOLDFAST_TOOLS_WORKSPACE": str(tmp_path),
            "HOLDFAST_TOOLS_APPROVAL": "always-refuse",
            "HOLDFAST_TOOLS_ALLOW": '["command:git status*", "write:/tmp/*"]',
            "HOLDFAST_TOOLS_APPROVAL_TIMEOUT_S": "5",
            "HOLDFAST_TOOLS_RESULT_CHARACTERS": "5000",
            "HOLDFAST_TOOLS_MCP_SERVERS": '[{"name": "a", "url": "http://h", "headers": {"Auth": "s3cret"}}]',
        }
    ).tools
    assert settings.allow == ("command:git status*", "write:/tmp/*")
    assert settings.mcp_servers[0].headers == {"Auth": "s3cret"}
    assert "s3cret" not in repr(settings)
    assert "s3cret" not in repr(settings.mcp_servers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_TOOLS_APPROVAL", "perhaps"),
        ("HOLDFAST_TOOLS_ALLOW", "command:git status"),
        ("HOLDFAST_TOOLS_ALLOW", '{"a": 1}'),
        ("HOLDFAST_TOOLS_MCP_SERVERS", '[{"name": "a"}]'),
        ("HOLDFAST_TOOLS_MCP_SERVERS", '[{"name": "a", "command": "x", "url": "y"}]'),
        ("HOLDFAST_TOOLS_MCP_SERVERS", '[{"name": "a__b", "command": "x"}]'),
        ("HOLDFAST_TOOLS_MCP_SERVERS", '[{"name": "a", "command": "x", "typo": 1}]'),
        ("HOLDFAST_TOOLS_RESULT_CHARACTERS", "1"),
        ("HOLDFAST_TOOLS_APPROVAL_TIMEOUT_S", "0"),
    ],
)
def test_a_setting_that_does_not_fit_is_an_error_that_names_it(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=name):
        load_settings({name: value})
