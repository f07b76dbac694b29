"""`holdfast memory setup`: what it asks, what it stores where, and what it refuses."""

import stat
from pathlib import Path

import pytest

from tests.cli.real_terminal import Home, run

pytestmark = pytest.mark.slow

PLUGIN = """
from holdfast.memory import MemoryProvider

class Cellar(MemoryProvider):
    name = "cellar"
    def is_available(self): return True
    def initialize(self, session_id, **kwargs): self.config = kwargs["config"]
    def get_tool_schemas(self): return []
    def get_config_schema(self):
        return [
            {"key": "place", "description": "Which cellar", "choices": ["north", "south"],
             "default": "north"},
            {"key": "token", "description": "Its token", "secret": True, "required": True,
             "env_var": "CELLAR_TOKEN"},
        ]
    def check(self, config):
        if config.secret("token").reveal() != "open sesame":
            raise PermissionError("the cellar stays shut")
        return f"the {config.text('place')} cellar is open"
"""


@pytest.fixture
def cellar(home: Home) -> Home:
    plugins = home.folder / "plugins"
    plugins.mkdir()
    (plugins / "cellar.py").write_text(PLUGIN)
    home.settings["HOLDFAST_MEMORY_PLUGINS"] = str(plugins)
    return home


def secrets(home: Home) -> Path:
    return home.folder / "data" / "holdfast" / "secrets.toml"


def test_a_script_sets_a_provider_up_and_hears_what_was_written_where(cellar: Home) -> None:
    done = run(cellar, "memory", "setup", "cellar", "--set", "place=south", "--set", "token=open sesame")
    assert done.returncode == 0, done.stderr
    assert "cellar works: the south cellar is open" in done.stdout
    assert f"token: written to {secrets(cellar)}" in done.stdout
    assert "open sesame" not in done.stdout
    assert stat.S_IMODE(secrets(cellar).stat().st_mode) == 0o600
    settings = cellar.folder / "config" / "holdfast"
    assert "sesame" not in (settings / "memory.toml").read_text()


def test_an_installed_provider_is_named_in_the_settings_and_a_plugin_need_not_be(cellar: Home) -> None:
    settings = cellar.folder / "config" / "holdfast" / "settings.toml"
    run(cellar, "memory", "setup", "cellar", "--set", "token=open sesame")
    assert not settings.exists()
    done = run(cellar, "memory", "setup", "holdfast.testing.providers:RecordingProvider")
    assert "memory.providers: holdfast.testing.providers:RecordingProvider added" in done.stdout
    assert "RecordingProvider" in settings.read_text()
    run(cellar, "ask", "hello")
    status = run(cellar, "memory").stdout
    assert "left out" not in status
    assert {"cellar", "recording", "local"} <= {line.split(":")[0] for line in status.splitlines()}


def test_what_does_not_work_is_not_stored(cellar: Home) -> None:
    failed = run(cellar, "memory", "setup", "cellar", "--set", "token=wrong")
    assert failed.returncode == 2
    assert "the cellar stays shut. Nothing was stored" in failed.stderr
    assert not secrets(cellar).exists()
    assert run(cellar, "memory", "setup", "cellar", "--set", "token=wrong", "--no-check").returncode == 0
    assert secrets(cellar).exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "cellar needs token"),
        (("--set", "depth=3"), "the keys: place, token"),
        (("--set", "place=east"), "place must be one of north, south"),
    ],
)
def test_what_does_not_fit_is_said_without_a_traceback(
    cellar: Home, given: tuple[str, ...], said: str
) -> None:
    failed = run(cellar, "memory", "setup", "cellar", *given)
    assert failed.returncode == 2
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr


def test_an_unknown_provider_is_named_with_those_that_are_known(home: Home) -> None:
    failed = run(home, "memory", "setup", "attic")
    assert failed.returncode == 2
    assert "'attic'" in failed.stderr
    assert "local" in failed.stderr


def test_a_terminal_is_asked_and_the_secret_is_not_shown(cellar: Home) -> None:
    terminal = cellar.terminal("memory", "setup", "cellar")
    terminal.see("Which cellar (north/south) [north]:")
    terminal.type("west")
    terminal.see("place must be one of north, south")
    terminal.type("south")
    terminal.see("Its token:")
    terminal.type("open sesame")
    terminal.see("cellar works: the south cellar is open")
    assert terminal.end() == 0
    assert "sesame" not in terminal.raw


def test_the_status_shows_whether_a_provider_works(cellar: Home) -> None:
    run(cellar, "ask", "hello")
    left_out = run(cellar, "memory").stdout
    assert "it needs token; run `holdfast memory setup cellar`" in left_out
    run(cellar, "memory", "setup", "cellar", "--set", "token=open sesame")
    assert "the north cellar is open" in run(cellar, "memory", "status").stdout
    cellar.settings["CELLAR_TOKEN"] = "another"
    assert "cellar does not work now: PermissionError" in run(cellar, "memory", "status").stdout
