"""Which files Holdfast names as its own, wherever settings and environment put them (S1)."""

from pathlib import Path

import pytest

import holdfast
from holdfast.core.errors import ProviderInvalid, SettingsInvalid
from holdfast.core.own_files import OwnFiles
from holdfast.core.settings import McpServerSettings, MemorySettings, Settings, StoreSettings, ToolSettings
from holdfast.wiring import load_providers_of, load_settings
from holdfast.wiring.file_rights import unsafe_code
from holdfast.wiring.memory_setup import make_provider_of
from holdfast.wiring.own_files import own_files

pytestmark = pytest.mark.clause("S1")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("DATA", "CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("HOLDFAST_SETTINGS", "HERMES_HOME", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def named(own: OwnFiles, home: Path, *names: str) -> list[str]:
    return [name for name in names if own.reason_to_ask(home / name)]


def test_the_folders_of_a_person_are_named(home: Path) -> None:
    names = (
        *("config/holdfast/settings.toml", "config/holdfast/memory.toml", "data/holdfast/secrets.toml"),
        *("data/holdfast/web-token", "data/holdfast/holdfast.db", "data/holdfast/holdfast.db-wal"),
        *("data/holdfast/memory_providers/mine.py", "data/holdfast/skills/x/SKILL.md"),
        *("data/holdfast/hermes/x", "state/holdfast/log/holdfast.log", "cache/holdfast/x"),
    )
    assert named(own_files(Settings()), home, *names) == list(names)
    assert named(own_files(Settings()), home, "data/other", "notes.txt", "config/holdfast2/x") == []


def test_what_is_put_elsewhere_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SETTINGS", str(home / "project/settings.toml"))
    monkeypatch.setenv("HERMES_HOME", str(home / "hermes-home"))
    settings = Settings(
        store=StoreSettings(url=f"sqlite:///{home}/project/chats.db"),
        memory=MemorySettings(providers=(f"hermes:{home}/plugin",), plugins=str(home / "plugins")),
        tools=ToolSettings(skills_folder=str(home / "skills")),
    )
    names = (
        *("project/settings.toml", "project/memory.toml", "project/chats.db", "project/chats.db-wal"),
        *("project/chats.db-shm", "hermes-home/x", "plugin/__init__.py", "plugins/x.py", "skills/x/SKILL.md"),
    )
    assert named(own_files(settings), home, *names, "project/other") == list(names)


def test_the_password_file_of_postgresql_is_named_when_the_store_is_there(home: Path) -> None:
    there = Settings(store=StoreSettings(url="postgresql://host/db"))
    assert named(own_files(there), home, ".pgpass") == [".pgpass"]
    assert named(own_files(Settings()), home, ".pgpass") == []


def test_what_is_linked_into_the_plugins_is_named_where_it_is(home: Path) -> None:
    (home / "data/holdfast/memory_providers").mkdir(parents=True)
    (home / "project").mkdir()
    (home / "data/holdfast/memory_providers/mine").symlink_to(home / "project")
    (home / "config/holdfast").mkdir(parents=True)
    (home / "config/holdfast/settings.toml").symlink_to(home / "dotfiles.toml")
    names = ("project/__init__.py", "dotfiles.toml")
    assert named(own_files(Settings()), home, *names) == list(names)


def test_the_code_that_runs_may_be_read_and_is_asked_about_before_it_is_written(home: Path) -> None:
    script = home / "server.py"
    script.write_text("")
    server = McpServerSettings(name="mine", command="python3", args=("-u", str(script)))
    own = own_files(Settings(tools=ToolSettings(mcp_servers=(server,))))
    for path in (Path(holdfast.__file__).resolve(), Path(pytest.__file__).resolve(), script):
        assert own.reason_to_ask(path, writing=True) == "part of Holdfast's own program"
        assert own.reason_to_ask(path) == ""


@pytest.mark.parametrize("open_to_all", ["config/holdfast/settings.toml", "config/holdfast"])
def test_settings_that_everybody_can_write_are_not_obeyed(home: Path, open_to_all: str) -> None:
    file = home / "config/holdfast/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[tools]\napproval = 'never-ask'\n")
    file.chmod(0o664)
    assert load_settings().tools.approval == "never-ask"
    (home / open_to_all).chmod((home / open_to_all).stat().st_mode | 0o002)
    with pytest.raises(SettingsInvalid, match=f"{file}: .*chmod o-w {home / open_to_all}"):
        load_settings()


@pytest.mark.parametrize("open_to_all", ["", "mine", "mine/__init__.py"])
def test_plugins_that_everybody_can_write_are_not_run(home: Path, open_to_all: str) -> None:
    plugins = home / "data/holdfast/memory_providers"
    (plugins / "mine").mkdir(parents=True)
    (plugins / "mine/__init__.py").write_text(f"import pathlib; pathlib.Path({str(home / 'ran')!r}).touch()")
    (plugins / open_to_all).chmod(0o777)
    (problem,) = load_providers_of(Settings(memory=MemorySettings(providers=()))).problems
    assert "can be written by everybody" in str(problem)
    assert "No plugin was run" in str(problem)
    assert not (home / "ran").exists()
    (plugins / open_to_all).chmod(0o755)
    load_providers_of(Settings(memory=MemorySettings(providers=())))
    assert (home / "ran").exists()


PACKAGE = "from .helper import ran\nran()\n"


def package_in(folder: Path, ran: Path) -> Path:
    """A plugin whose second file leaves a trace when it is run."""
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "helper.py").write_text(f"import pathlib\ndef ran(): pathlib.Path({str(ran)!r}).touch()")
    (folder / "deep").mkdir()
    (folder / "deep/data.json").write_text("{}")
    return folder


@pytest.mark.parametrize("open_to_all", ["helper.py", "deep", "deep/data.json"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_package_with_any_file_that_everybody_can_write_is_not_run(
    home: Path, open_to_all: str, linked: bool
) -> None:
    plugins = home / "data/holdfast/memory_providers"
    plugins.mkdir(parents=True)
    package = package_in(home / "elsewhere/mine" if linked else plugins / "mine", home / "ran")
    if linked:
        (plugins / "mine").symlink_to(package)
    (package / open_to_all).chmod(0o777)
    (problem,) = load_providers_of(Settings(memory=MemorySettings(providers=()))).problems
    assert "can be written by everybody" in str(problem)
    assert not (home / "ran").exists()
    (package / open_to_all).chmod(0o755)
    load_providers_of(Settings(memory=MemorySettings(providers=())))
    assert (home / "ran").exists()


def test_a_plugin_that_links_into_a_folder_for_everybody_is_not_run(home: Path) -> None:
    plugins = home / "data/holdfast/memory_providers"
    plugins.mkdir(parents=True)
    target = home / "shared/target.py"
    target.parent.mkdir()
    target.write_text(f"import pathlib; pathlib.Path({str(home / 'ran')!r}).touch()")
    (plugins / "mine.py").symlink_to(target)
    target.parent.chmod(0o777)
    (problem,) = load_providers_of(Settings(memory=MemorySettings(providers=()))).problems
    assert f"chmod o-w {target.parent}" in str(problem)
    assert not (home / "ran").exists()


def test_plugins_that_link_to_themselves_are_looked_at_once(home: Path) -> None:
    plugins = home / "data/holdfast/memory_providers"
    package = package_in(plugins / "mine", home / "ran")
    (package / "again").symlink_to(plugins)
    load_providers_of(Settings(memory=MemorySettings(providers=())))
    assert (home / "ran").exists()


def test_plugins_that_are_too_many_to_look_at_are_not_run(home: Path) -> None:
    plugins = home / "data/holdfast/memory_providers"
    package = package_in(plugins / "mine", home / "ran")
    for number in range(20):
        (package / str(number)).touch()
    assert unsafe_code(plugins) == ""
    assert "more than 10 files" in unsafe_code(plugins, most=10)


def test_a_hermes_plugin_that_everybody_can_write_is_not_run(home: Path) -> None:
    package = package_in(home / "hermes/mine", home / "ran")
    (package / "__init__.py").write_text(f"# register_memory_provider\n{PACKAGE}")
    (package / "helper.py").chmod(0o666)
    settings = Settings(memory=MemorySettings(providers=(f"hermes:{package}",)))
    (problem,) = load_providers_of(settings).problems
    assert "helper.py can be written by everybody" in str(problem)
    with pytest.raises(ProviderInvalid, match="can be written by everybody"):
        make_provider_of(settings, f"hermes:{package}")
    assert not (home / "ran").exists()
    (package / "helper.py").chmod(0o644)
    load_providers_of(settings)
    assert (home / "ran").exists()


def test_a_configuration_that_everybody_can_write_is_not_used(home: Path) -> None:
    (home / "data/holdfast").mkdir(parents=True)
    secrets = home / "data/holdfast/secrets.toml"
    secrets.write_text("[honcho]\napi_key = 'x'\n")
    secrets.chmod(0o666)
    (problem,) = load_providers_of(Settings(memory=MemorySettings(providers=("honcho",)))).problems
    assert f"{secrets} can be written by everybody" in str(problem)
