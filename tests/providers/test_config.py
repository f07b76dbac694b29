"""What a provider must be told: where values come from, what is refused, and where they are kept."""

import stat
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, ProviderNotWorking
from holdfast.memory import MemoryManager
from holdfast.memory.config import (
    ProviderConfig,
    config_problems,
    missing_fields,
    parse_schema,
    resolve_config,
)
from holdfast.memory.provider_check import ProviderCheck
from holdfast.memory.provider_gate import gate_provider
from holdfast.providers.config_store import ConfigStore
from holdfast.providers.loader import load_providers
from holdfast.testing.providers import RecordingProvider
from tests.memory.gates import Gate, until

SCHEMA: list[dict[str, Any]] = [
    {"key": "mode", "default": "cloud", "choices": ["cloud", "own"]},
    {"key": "url", "required": True, "when": {"mode": "own"}},
    {"key": "key", "secret": True, "env_var": "EXAMPLE_KEY", "required": True, "when": {"mode": "cloud"}},
    {"key": "fast", "default": True},
    {"key": "seconds", "default": 2.5},
]
FIELDS = parse_schema(SCHEMA)


class Configured(RecordingProvider):
    """A provider that must be told things."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        return SCHEMA


def test_a_variable_wins_over_what_is_stored_and_that_over_the_default() -> None:
    config = resolve_config(FIELDS, {"key": "stored", "seconds": "7"}, {"EXAMPLE_KEY": " from-variable\n"})
    assert config.secret("key").reveal() == "from-variable"
    assert (config.number("seconds", 1), config.flag("fast"), config.text("mode")) == (7.0, True, "cloud")


def test_a_secret_is_masked_wherever_a_configuration_is_shown() -> None:
    config = resolve_config(FIELDS, {"key": "hush-hush"})
    assert "hush" not in f"{config} {config!r} {config.secrets}"
    assert config.revealed()["key"] == "hush-hush"


def test_a_field_counts_only_with_the_values_it_names() -> None:
    own = resolve_config(FIELDS, {"mode": "own", "url": "http://here", "key": "unused"})
    assert (own.text("url"), bool(own.secret("key")), missing_fields(FIELDS, own)) == (
        "http://here",
        False,
        [],
    )
    assert [each.key for each in missing_fields(FIELDS, resolve_config(FIELDS))] == ["key"]
    assert [each.key for each in missing_fields(FIELDS, resolve_config(FIELDS, {"mode": "own"}))] == ["url"]


def test_a_value_that_is_no_choice_is_named() -> None:
    assert config_problems(FIELDS, resolve_config(FIELDS, {"mode": "other"})) == [
        "mode must be one of cloud, own"
    ]


@pytest.mark.parametrize("schema", [None, "text", [{}], [{"key": 3}], ["key"]])
def test_a_schema_that_is_none_is_refused(schema: object) -> None:
    with pytest.raises(ValueError, match="get_config_schema"):
        parse_schema(schema)


def test_a_number_that_is_none_is_named_by_its_key() -> None:
    with pytest.raises(ValueError, match="seconds must be a number, not 'soon'"):
        ProviderConfig({"seconds": "soon"}).number("seconds", 1)


@pytest.fixture
def store(tmp_path: Path) -> ConfigStore:
    return ConfigStore(tmp_path / "config" / "memory.toml", tmp_path / "data" / "secrets.toml")


def test_secrets_are_kept_apart_in_a_file_of_their_owner_alone(store: ConfigStore) -> None:
    written = store.write("one", FIELDS, {"key": 'q"\\ü', "mode": "own", "url": "http://x/'y'"})
    assert written == [(store.settings, ["mode", "url"]), (store.secrets, ["key"])]
    assert "ü" not in store.settings.read_text()
    assert stat.S_IMODE(store.secrets.stat().st_mode) == 0o600
    assert store.read("one") == {"key": 'q"\\ü', "mode": "own", "url": "http://x/'y'"}


def test_writing_for_one_provider_keeps_what_the_others_have(store: ConfigStore) -> None:
    store.write("one", FIELDS, {"key": "a", "mode": "own"})
    store.write("a.b:C", FIELDS, {"mode": "cloud"})
    store.write("one", FIELDS, {"mode": "cloud"})
    assert store.read("one") == {"mode": "cloud"}
    assert store.read("a.b:C") == {"mode": "cloud"}


def test_a_file_that_cant_be_read_is_named_and_left_as_it_is(store: ConfigStore) -> None:
    store.settings.parent.mkdir()
    store.settings.write_text("not = = toml")
    with pytest.raises(InvalidInput, match=r"memory\.toml can't be read"):
        store.write("one", FIELDS, {"mode": "own"})
    assert store.settings.read_text() == "not = = toml"


def test_a_provider_without_what_it_needs_is_left_out_and_says_how_to_set_it_up() -> None:
    loaded = load_providers([f"{__name__}:Configured"])
    [problem] = loaded.problems
    assert "it needs key; run `holdfast memory setup" in str(problem)


def test_a_provider_gets_its_configuration_when_it_is_initialised() -> None:
    def configure(name: str, fields: Any) -> ProviderConfig:  # noqa: ANN401
        return resolve_config(fields, {"key": f"for {name}"})

    loaded = load_providers([f"{__name__}:Configured"], None, configure)
    assert loaded.ready[0].config.secret("key").reveal() == "for recording"
    manager, provider = MemoryManager(), Configured()
    manager.add_provider(provider)
    until(lambda: any(call == "initialize" for call, _ in provider.calls))
    manager.shutdown_all()
    _, kwargs = provider.calls[0][1]
    assert kwargs["config"].text("seconds") == "2.5"


class Broken(RecordingProvider):
    def check(self, config: ProviderConfig) -> str:
        raise ConnectionError(f"nobody at {config.text('url')}")


class Stuck(RecordingProvider):
    gate = Gate()

    def check(self, config: ProviderConfig) -> str:
        self.gate()
        return ""


def test_a_provider_that_does_not_work_is_reported_with_its_reason() -> None:
    with pytest.raises(ProviderNotWorking, match="ConnectionError: nobody at http://x"):
        ProviderCheck(gate_provider(Broken(), SystemClock()), ProviderConfig({"url": "http://x"})).result()


def test_a_check_that_hangs_ends_at_its_deadline() -> None:
    trial = ProviderCheck(gate_provider(Stuck(), SystemClock()), ProviderConfig(), 0.01)
    with pytest.raises(ProviderNotWorking, match=r"no answer in 0\.01 s"):
        trial.result()
    Stuck.gate.open()
