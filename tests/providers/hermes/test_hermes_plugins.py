"""The eight memory plugins that ship with hermes-agent 0.19.0: each loads; what needs no account is run.

They are installed into `.cache/backends/hermes` by `tools/hermes_env.py`, and never imported by name.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.memory import MemoryManager
from holdfast.memory.config import ProviderConfig, declared_fields, resolve_config
from holdfast.providers.hermes import HermesProvider
from holdfast.providers.loader import load_providers
from holdfast.sessions import SessionDB
from tests.memory.gates import DEADLINE
from tests.providers.contract_suite.honcho_fake import FakeHoncho
from tools.hermes_env import hermes_plugins

pytestmark = pytest.mark.slow

EIGHT = ("byterover", "hindsight", "holographic", "honcho", "mem0", "openviking", "retaindb", "supermemory")
KEYS = {
    "honcho": {"api_key": "k"},
    "mem0": {"api_key": "k"},
    "retaindb": {"api_key": "k"},
    "hindsight": {"api_key": "k"},
    "openviking": {"endpoint": "http://127.0.0.1:1"},
    "supermemory": {"api_key": "k"},
}


@pytest.fixture(scope="session")
def plugins() -> Path:
    return hermes_plugins()


@pytest.mark.parametrize("name", EIGHT)
def test_each_is_loaded_with_its_settings_and_tools(plugins: Path, tmp_path: Path, name: str) -> None:
    environment = {"HOME": str(tmp_path)}
    loaded = load_providers([f"hermes:{plugins / name}"], folder=tmp_path, environment=environment)
    assert loaded.problems == []
    [ready] = loaded.ready
    provider = ready.gated.provider
    assert provider.name == f"hermes-{name}"
    assert declared_fields(provider)
    assert all(schema["function"]["name"] for schema in provider.get_tool_schemas())
    assert isinstance(provider.system_prompt_block(), str)
    provider.shutdown()


@pytest.mark.parametrize("name", [name for name in KEYS if name != "supermemory"])
def test_a_key_that_was_set_reaches_it(plugins: Path, tmp_path: Path, name: str) -> None:
    provider = HermesProvider(plugins / name, folder=tmp_path, environment={"HOME": str(tmp_path)})
    config = resolve_config(declared_fields(provider), KEYS[name])
    assert "configured" in provider.check(config)
    provider.shutdown()


@pytest.fixture
def holographic(plugins: Path, tmp_path: Path) -> Iterator[MemoryManager]:
    """The plugin that needs no account, on lanes, with extraction at a boundary switched on."""
    with SessionDB(tmp_path / "store.db") as store:
        memory = MemoryManager(store)
        provider = HermesProvider(
            plugins / "holographic", folder=tmp_path, environment={"HOME": str(tmp_path)}
        )
        config: ProviderConfig = resolve_config(declared_fields(provider), {"auto_extract": "true"})
        memory.add_provider(provider, config=config)
        yield memory
        memory.shutdown_all()


def test_holographic_keeps_and_finds_facts_through_its_tools(holographic: MemoryManager) -> None:
    def store(**arguments: object) -> dict[str, object]:
        answer: dict[str, object] = json.loads(holographic.handle_tool_call("fact_store", dict(arguments)))
        return answer

    assert "error" not in store(action="add", content="Ada keeps bees in Norwich", category="general")
    found = store(action="search", query="bees")
    assert "Norwich" in json.dumps(found)
    assert "Norwich" in holographic.prefetch_all("Where are the bees?", session_id="s1")


def test_holographic_extracts_at_the_end_of_a_session(holographic: MemoryManager) -> None:
    holographic.sync_all("I prefer dark roast coffee in the morning.", "Noted.", session_id="s1")
    assert holographic.flush_pending(DEADLINE)
    holographic.on_session_end(
        [{"role": "user", "content": "I prefer dark roast coffee in the morning."}],
        session_id="s1",
        timeout=DEADLINE,
    )
    assert "dark roast" in holographic.prefetch_all("dark roast coffee", session_id="s2")


def test_honcho_reaches_a_server_of_ones_own(plugins: Path, tmp_path: Path) -> None:
    server = FakeHoncho()
    server.backend.start()
    with SessionDB(tmp_path / "store.db") as store:
        memory = MemoryManager(store)
        provider = HermesProvider(plugins / "honcho", folder=tmp_path, environment={"HOME": str(tmp_path)})
        values = {"baseUrl": server.backend.url, "api_key": "k"}
        memory.add_provider(provider, config=resolve_config(declared_fields(provider), values))
        memory.sync_all("The pear tree stands by the well.", "Noted.", session_id="s1")
        assert memory.flush_pending(DEADLINE), memory.status()
        said = [each["content"] for each in server.messages]
        memory.shutdown_all()
    server.backend.stop()
    assert said == ["The pear tree stands by the well.", "Noted."]
