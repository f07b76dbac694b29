"""`holdfast mcp add, list, remove, test, login, logout` on a settings file of their own."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.cli.commands import app
from holdfast.core.errors import InvalidInput
from holdfast.wiring import load_settings, settings_path

SERVER = Path(__file__).parent.parent / "tools" / "workers" / "mcp_server.py"
Mcp = Callable[..., str]


@pytest.fixture
def mcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mcp:
    """Run `holdfast mcp`; gives what it prints."""
    for kind in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.delenv("HOLDFAST_SETTINGS", raising=False)

    def run(*words: str) -> str:
        app(["mcp", *words], exit_on_error=False, result_action="return_value")
        return capsys.readouterr().out

    return run


def test_a_server_is_added_listed_replaced_and_removed(mcp: Mcp) -> None:
    assert "There are none" in mcp("list")
    assert "holdfast mcp test notes" in mcp(
        "add", "--trusted", "--env", "KEY=a=b", "notes", "serve", "--flag", "x"
    )
    mcp("add", "--header", "Authorization=Bearer secret", "tickets", "https://tickets.example/mcp")
    assert mcp("list").splitlines() == [
        "notes  serve --flag x  (trusted)",
        "tickets  https://tickets.example/mcp",
    ]
    notes, tickets = load_settings().tools.mcp_servers
    assert notes.env == {"KEY": "a=b"}
    assert tickets.headers == {"Authorization": "Bearer secret"}
    # What the file holds may be a secret.
    assert settings_path().stat().st_mode & 0o077 == 0
    mcp("add", "notes", "other")
    assert "notes  other" in mcp("list")
    assert "is removed" in mcp("remove", "notes")
    assert mcp("list") == "tickets  https://tickets.example/mcp\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("add", "two words", "serve"), "that is no MCP server"),
        (("add", "--env", "KEY", "notes", "serve"), "not NAME=VALUE"),
        (("add", "notes", "https://a.example/mcp", "more"), "takes no arguments"),
        (("remove", "notes"), "no MCP server 'notes'"),
        (("test", "notes"), "no MCP server 'notes'"),
        (("login", "notes"), "no MCP server 'notes'"),
        (("logout", "notes"), "nobody is signed in"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_changed(mcp: Mcp, words: tuple[str, ...], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        mcp(*words)
    assert not settings_path().exists()


def test_a_server_is_tried_and_one_that_does_not_work_is_named(mcp: Mcp) -> None:
    mcp("add", "srv", sys.executable, str(SERVER))
    shown = mcp("test", "srv")
    assert "srv__add  (reads only): Add two numbers." in shown
    assert "srv works: " in shown
    mcp("add", "broken", sys.executable, "-c", "raise SystemExit('out of order')")
    with pytest.raises(InvalidInput, match=r"the MCP server broken is left out: .*out of order"):
        mcp("test", "broken")
