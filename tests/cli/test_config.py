"""`holdfast config set`: lists in both forms, and files that people wrote by hand."""

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.cli.config import show_settings
from holdfast.core.errors import HoldfastError
from holdfast.core.settings import McpServerSettings
from holdfast.wiring import load_settings
from holdfast.wiring.mcp_settings import add_server, remove_server
from holdfast.wiring.settings_view import described_settings
from holdfast.wiring.settings_writer import change_settings

ON_A_FULL_DISK = """
import resource
from holdfast.wiring.settings_writer import change_settings
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
change_settings({"model.name": "n", "model.api_key": "k" * 2000})
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text("# mine\n[tools]\nsandbox = 'off'\n")
    monkeypatch.setenv("HOLDFAST_SETTINGS", str(path))
    return path


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("tools.allow", '["command:ls *", "command:echo a,b"]', ("command:ls *", "command:echo a,b")),
        ("tools.allow", "command:ls *, read:/tmp/*", ("command:ls *", "read:/tmp/*")),
        ("tools.allow", " [] ", ()),
        ("tools.allow", "", ()),
        ("memory.providers", '["local", "holographic"]', ("local", "holographic")),
        ("memory.providers", "[]", ()),
        ("tools.sandbox_readable", '["/opt/a, b"]', ("/opt/a, b",)),
        ("web.allowed_hosts", "[2001:db8::1], example.org", ("[2001:db8::1]", "example.org")),
        ("web.trusted_proxies", '["127.0.0.1"]', ("127.0.0.1",)),
    ],
)
def test_a_list_is_set_as_json_or_with_commas(
    file: Path, key: str, value: str, read: tuple[str, ...]
) -> None:
    change_settings({key: value})
    section, _, name = key.partition(".")
    assert getattr(getattr(load_settings(), section), name) == read
    assert "# mine" in file.read_text()


@pytest.mark.parametrize("value", ['["local", "holographic"]', "local, holographic"])
def test_a_variable_takes_both_forms_too(file: Path, value: str) -> None:
    assert file.exists()
    settings = load_settings({"HOLDFAST_MEMORY_PROVIDERS": value})
    assert settings.memory.providers == ("local", "holographic")


def test_servers_are_set_as_json(file: Path) -> None:
    servers = [{"name": "notes", "command": "serve", "args": ["a"], "env": {"A-B": 'c "d"'}, "trusted": True}]
    change_settings({"tools.mcp_servers": json.dumps(servers)})
    (server,) = load_settings().tools.mcp_servers
    assert (server.name, server.args, server.env, server.trusted) == ("notes", ("a",), {"A-B": 'c "d"'}, True)
    assert "sandbox = 'off'" in file.read_text()


def test_a_list_over_several_lines_is_replaced_whole(file: Path) -> None:
    file.write_text("[tools]\nallow = [\n  'command:ls *',\n  'command:make',  # ]\n]\nsandbox = 'off'\n")
    change_settings({"tools.allow": '["command:pwd"]'})
    assert file.read_text() == "[tools]\nallow = [\"command:pwd\"]\nsandbox = 'off'\n"


def test_servers_in_sections_of_their_own_are_left_to_the_editor(file: Path) -> None:
    text = "[[tools.mcp_servers]]\nname = 'notes'\ncommand = 'serve'\n"
    file.write_text(text)
    with pytest.raises(HoldfastError, match="config edit"):
        change_settings({"tools.mcp_servers": "[]"})
    assert file.read_text() == text


@pytest.mark.parametrize("written", ["", "mcp_servers = [{name = 'old', command = 'serve'}]\n"])
def test_servers_are_added_and_removed_and_the_rest_of_the_file_stays(file: Path, written: str) -> None:
    file.write_text(f"# mine\n[tools]\n{written}sandbox = 'off'\n\n[web]\nport = 9000\n")
    add_server(McpServerSettings(name="notes", command="serve", args=("a b",), env={"KEY": "c"}))
    add_server(McpServerSettings(name="time", url="https://example.org/mcp", trusted=True))
    add_server(McpServerSettings(name="notes", command="serve", args=("again",)))
    servers = {each.name: each for each in load_settings().tools.mcp_servers}
    assert set(servers) == {"notes", "time", *(["old"] if written else [])}
    assert servers["notes"].args == ("again",)
    assert servers["time"].trusted
    remove_server("time")
    with pytest.raises(HoldfastError, match="no MCP server 'time'"):
        remove_server("time")
    remove_server("notes")
    settings = load_settings()
    assert [each.name for each in settings.tools.mcp_servers] == (["old"] if written else [])
    assert (settings.tools.sandbox, settings.web.port) == ("off", 9000)
    assert "# mine" in file.read_text()


ADDRESSES = (
    ("tools.search_url", "http://me:hidden-words@search.example/"),
    ("model.base_url", "http://me:one@hidden-words@model.example/v1"),
    ("model.base_url", "https://model.example/v1?api-key=hidden-words&version=2"),
    ("gateway.transcription_url", "https://me:hidden-words@speech.example/v1"),
    ("store.url", "postgresql://db.example/holdfast?user=me&password=hidden-words&sslmode=require"),
    ("store.url", "postgresql://me:hidden?words@db.example/holdfast"),
)


@pytest.mark.parametrize(("key", "address"), ADDRESSES)
def test_no_list_of_settings_shows_a_password_in_an_address(
    file: Path, capsys: pytest.CaptureFixture[str], key: str, address: str
) -> None:
    assert file.exists()
    change_settings({key: address})
    (entry,) = [each for each in described_settings()[1] if each.key == key]
    show_settings()
    for shown in (entry.value, capsys.readouterr().out):
        assert ".example" in shown
        assert "hidden" not in shown
        assert "words" not in shown


def test_an_address_that_is_written_back_as_it_is_shown_keeps_its_password(file: Path) -> None:
    change_settings({"tools.search_url": "http://me:hidden-words@search.example/"})
    before = file.read_text()
    (entry,) = [each for each in described_settings()[1] if each.key == "tools.search_url"]
    with pytest.raises(HoldfastError, match="Write the whole value"):
        change_settings({"tools.search_url": entry.value})
    assert file.read_text() == before


def test_a_list_that_is_nested_without_end_is_refused(file: Path) -> None:
    before = file.read_text()
    with pytest.raises(HoldfastError):
        change_settings({"tools.allow": "[" * 50_000})
    with pytest.raises(HoldfastError):
        load_settings({"HOLDFAST_TOOLS_MCP_SERVERS": "[" * 50_000})
    assert file.read_text() == before


def test_a_change_of_which_one_part_is_refused_changes_no_part(file: Path) -> None:
    before = file.read_text()
    with pytest.raises(HoldfastError, match="nothing was changed"):
        change_settings({"model.name": "another", "model.api_key": "pasted\x7f"})
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_change_that_the_disk_has_no_room_for_changes_nothing_and_leaves_nothing(file: Path) -> None:
    before = file.read_text()
    done = subprocess.run([sys.executable, "-c", ON_A_FULL_DISK], capture_output=True, text=True, check=False)
    assert "can't be changed" in done.stderr
    assert file.read_text() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_what_several_processes_set_at_once_is_all_set(file: Path) -> None:
    changes = [("model.name", "a"), ("limits.max_steps", "9"), ("memory.recall_s", "3"), ("host.agents", "5")]
    command = "import sys; from holdfast.wiring.settings_writer import change_settings as set; "
    command += "sys.stdin.readline(); [set({sys.argv[1]: sys.argv[2]}) for _ in range(20)]"
    with ExitStack() as running:
        writers = [
            running.enter_context(
                subprocess.Popen([sys.executable, "-c", command, key, value], stdin=subprocess.PIPE)
            )
            for key, value in changes
        ]
        for each in writers:
            assert each.stdin is not None
            each.stdin.write(b"go\n")
            each.stdin.flush()
        assert [each.wait(60) for each in writers] == [0, 0, 0, 0]
    settings = load_settings()
    assert (settings.model.name, settings.limits.max_steps) == ("a", 9)
    assert (settings.memory.recall_s, settings.host.agents) == (3, 5)
    assert "# mine" in file.read_text()
