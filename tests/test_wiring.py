"""Settings from the environment, and what is built from them."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Host
from holdfast.core.errors import HostNotStarted, SettingsInvalid, StoreUnopenable
from holdfast.core.settings import Settings
from holdfast.sessions import SessionDB
from holdfast.wiring import build_memory, load_settings, open_store


def test_with_no_variables_every_setting_has_its_default() -> None:
    assert load_settings({"PATH": "/bin"}) == Settings()


def test_variables_are_named_after_their_section_and_key() -> None:
    settings = load_settings({"HOLDFAST_EXIT_WATCHDOG_S": "2.5", "HOLDFAST_STORE_BUSY_TIMEOUT_S": "1"})
    assert settings.exit.watchdog_s == 2.5
    assert settings.store.busy_timeout_s == 1.0


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("HOLDFAST_STORE_ULR", "x", "no such setting"),
        ("HOLDFAST_STROE_URL", "x", "no such setting"),
        ("HOLDFAST_EXIT_WATCHDOG_S", "soon", "valid number"),
        ("HOLDFAST_EXIT_WATCHDOG_S", "0", "greater than 0"),
    ],
)
def test_a_wrong_variable_is_named_with_its_problem(name: str, value: str, problem: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"{name}: .*{problem}"):
        load_settings({name: value})


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("HOLDFAST_MODEL_ATTEMPTS", "many", "valid integer"),
        ("HOLDFAST_MODEL_BASE_URL", "nowhere", "http://HOST:PORT/v1"),
        ("HOLDFAST_LIMITS_MAX_COST", "-1", "greater than or equal to 0"),
    ],
)
def test_the_settings_of_the_model_and_the_limits_are_variables_too(
    name: str, value: str, problem: str
) -> None:
    with pytest.raises(SettingsInvalid, match=f"{name}: .*{problem}"):
        load_settings({name: value})


def test_a_key_in_a_variable_is_never_shown() -> None:
    settings = load_settings({"HOLDFAST_MODEL_API_KEY": "sk-hunter2"})
    assert settings.model.api_key.reveal() == "sk-hunter2"
    assert "hunter2" not in f"{settings!r} {settings} {settings.model!r} {settings.model_dump()}"


def test_an_empty_variable_says_nothing() -> None:
    assert load_settings({"HOLDFAST_LIMITS_MAX_COST": "", "HOLDFAST_STORE_BUSY_TIMEOUT_S": ""}) == Settings()


def test_a_given_environment_stands_alone_and_the_users_own_file_is_read_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "settings.toml").write_text("[model]\nname = 'mine'")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HOLDFAST_SETTINGS", raising=False)
    assert load_settings({}).model.name == ""
    assert load_settings().model.name == "mine"
    (tmp_path / "holdfast" / "settings.toml").unlink()
    assert load_settings().model.name == ""


def test_variables_of_the_projects_own_tests_are_not_settings() -> None:
    assert load_settings({"HOLDFAST_TEST_POSTGRES_URL": "postgresql://x"}) == Settings()


def test_settings_cannot_be_changed_once_parsed() -> None:
    settings = load_settings({})
    with pytest.raises(ValueError, match="frozen"):
        settings.store.url = "sqlite:////tmp/other.db"  # type: ignore[misc]


def test_the_password_in_a_stores_address_is_not_shown() -> None:
    settings = load_settings({"HOLDFAST_STORE_URL": "postgresql://me:hunter2@host/db"})
    assert settings.store.url.endswith("me:hunter2@host/db")
    assert "hunter2" not in f"{settings!r} {settings} {settings.store!r}"


def test_providers_are_named_in_one_variable() -> None:
    named = load_settings({"HOLDFAST_MEMORY_PROVIDERS": " local, some.module:Class ,"})
    assert named.memory.providers == ("local", "some.module:Class")
    assert load_settings({"HOLDFAST_MEMORY_PROVIDERS": ""}).memory.providers == ()


def test_memory_is_local_by_default_and_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with SessionDB(tmp_path / "holdfast.db") as store:
        memory, problems = build_memory(load_settings({}), store)
        assert problems == []
        assert memory.provider_names == ("local",)
        memory.sync_all("My cat is called Tom.", "Noted.", session_id="s")
        assert memory.flush_pending(30)
        assert "called Tom" in memory.prefetch_all("what is my cat called?", session_id="t", timeout=30)
        assert memory.shutdown_all() == []
    assert (tmp_path / "holdfast" / "memory.db").is_file()


def test_a_provider_that_fails_is_reported_by_name_and_the_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    plugins = tmp_path / "holdfast" / "memory_providers"
    plugins.mkdir(parents=True)
    (plugins / "broken.py").write_text("def (")
    names = "nobody,holdfast.testing.providers:RecordingProvider"
    with SessionDB(tmp_path / "holdfast.db") as store:
        memory, problems = build_memory(load_settings({"HOLDFAST_MEMORY_PROVIDERS": names}), store)
        assert [each.provider for each in problems] == ["nobody", "broken"]
        assert memory.provider_names == ("recording",)
        assert memory.shutdown_all() == []


def test_with_no_providers_there_is_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with SessionDB(tmp_path / "holdfast.db") as store:
        memory, problems = build_memory(load_settings({"HOLDFAST_MEMORY_PROVIDERS": ""}), store)
    assert (memory.provider_names, problems) == ((), [])
    assert not (tmp_path / "data").exists()


def test_the_store_that_the_settings_name_is_opened(tmp_path: Path) -> None:
    settings = load_settings({"HOLDFAST_STORE_URL": f"sqlite:///{tmp_path}/here.db"})
    with open_store(settings) as db:
        assert db.location == f"{tmp_path}/here.db"


def test_a_store_that_must_exist_is_not_made(tmp_path: Path) -> None:
    settings = load_settings({"HOLDFAST_STORE_URL": f"sqlite:///{tmp_path}/missing/here.db"})
    with pytest.raises(StoreUnopenable, match="no such file"):
        open_store(settings, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "use",
    [
        lambda host: host.send("s", "hello"),
        lambda host: anext(host.events("s")),
        lambda host: host.records.sessions(),
        lambda host: host.overview.asks("s"),
        lambda host: host.memory.status(),
        lambda host: host.overview.status(),
        lambda host: host.close(),
    ],
)
def test_a_host_that_is_not_started_says_so(use: Callable[[Host], Awaitable[Any]]) -> None:
    async def scenario() -> None:
        await use(Host(Settings()))

    with pytest.raises(HostNotStarted, match="async with"):
        asyncio.run(scenario())
