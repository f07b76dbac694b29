"""A plugin written for hermes-agent, run by the bridge: imports, settings, sessions, writes."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import ProviderInvalid, ProviderNotWorking
from holdfast.memory import MemoryManager
from holdfast.memory.config import ProviderConfig, declared_fields, resolve_config
from holdfast.memory.retry import RetryPolicy
from holdfast.providers.hermes import HermesProvider
from holdfast.providers.hermes.provider import MAX_SWALLOWED
from holdfast.providers.loader import load_providers
from holdfast.sessions import SessionDB
from holdfast.testing.provider_harness import InterceptedProvider
from tests.memory.gates import DEADLINE, until

JOTTER = Path(__file__).parent / "jotter"
QUICK = RetryPolicy(initial_delay_seconds=0.001, max_delay_seconds=0.01, max_attempts=100_000)
FOREIGN = {"agent", "tools.registry", "utils", "hermes_constants", "hermes_cli", "plugins"}

Start = Callable[..., tuple[MemoryManager, HermesProvider]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Runs the plugin on lanes, with a durable outbox."""
    stores: list[SessionDB] = []
    managers: list[MemoryManager] = []

    def run(
        after: Callable[[], object] = lambda: None, values: dict[str, str] | None = None
    ) -> tuple[MemoryManager, HermesProvider]:
        provider = HermesProvider(JOTTER, folder=tmp_path)
        stores.append(SessionDB(tmp_path / "store.db"))
        managers.append(MemoryManager(stores[-1], policy=QUICK))
        config = resolve_config(declared_fields(provider), {"api_key": "k1", **(values or {})})
        managers[-1].add_provider(InterceptedProvider(provider, after=after), config=config)  # type: ignore[arg-type]
        return managers[-1], provider

    yield run
    for each in managers:
        each.shutdown_all()
    for store in stores:
        store.close()


def pages(folder: Path, file: str = "jotter.jsonl") -> list[list[str]]:
    return [json.loads(line) for line in (folder / "hermes" / file).read_text().splitlines()]


def test_the_modules_it_imports_are_there_for_it_alone(tmp_path: Path) -> None:
    before = dict(sys.modules)
    provider = HermesProvider(JOTTER, folder=tmp_path)
    assert provider.name == "hermes-jotter"
    assert not FOREIGN & (sys.modules.keys() - before.keys())
    provider.shutdown()
    assert {name: each for name, each in sys.modules.items() if "jotter" in name} == {}


def test_two_of_a_kind_live_in_two_worlds(tmp_path: Path) -> None:
    one = HermesProvider(JOTTER, folder=tmp_path / "one", environment={"JOTTER_KEY": "a"})
    two = HermesProvider(JOTTER, folder=tmp_path / "two")
    one.initialize("s")
    with pytest.raises(ProviderNotWorking, match="it is not configured"):
        two.initialize("s")
    assert json.loads(one.handle_tool_call("jot", {"text": "x"}))["key"] == "a"
    one.shutdown()
    two.shutdown()


def test_turns_tools_and_recall_go_through_the_lanes(start: Start, tmp_path: Path) -> None:
    memory, _ = start()
    memory.sync_all("the pear tree", "yes", session_id="s1")
    memory.sync_all("the plum tree", "yes", session_id="s2")
    assert memory.flush_pending(DEADLINE)
    assert pages(tmp_path) == [["s1", "the pear tree"], ["s2", "the plum tree"]]
    assert memory.prefetch_all("plum", session_id="s3") == "the plum tree"
    assert json.loads(memory.handle_tool_call("jot", {"text": "a note"})) == {"key": "k1", "session": "s2"}
    assert json.loads(memory.handle_tool_call("jot", {})) == {"error": "text is missing"}


def test_a_turn_handed_over_by_itself_is_written_once(tmp_path: Path) -> None:
    provider = HermesProvider(JOTTER, folder=tmp_path, environment={"JOTTER_KEY": "a"})
    provider.initialize("s")
    provider.sync_turn("the fig tree", "yes", session_id="s1")
    provider.sync_turn("the fig tree", "yes", session_id="s1")
    provider.shutdown()
    provider.sync_turn("too late", "no", session_id="s1")
    assert pages(tmp_path) == [["s1", "the fig tree"]]


def test_each_turn_is_written_to_its_own_session(start: Start, tmp_path: Path) -> None:
    memory, _ = start()
    for number in range(6):
        memory.sync_all(f"turn {number}", "ok", session_id=f"s{number % 2}")
    assert memory.flush_pending(DEADLINE)
    assert sorted(pages(tmp_path)) == sorted([f"s{number % 2}", f"turn {number}"] for number in range(6))


@pytest.mark.clause("D2")
def test_a_turn_that_comes_again_is_not_handed_to_it_again(start: Start, tmp_path: Path) -> None:
    lost = iter([True, True, False])

    def lose_the_answer() -> None:
        if next(lost):
            raise ConnectionError("the answer is lost")

    memory, _ = start(after=lose_the_answer)
    memory.sync_all("only once", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    assert pages(tmp_path) == [["s1", "only once"]]


@pytest.mark.clause("M2")
def test_an_error_that_it_swallows_counts_and_the_turn_comes_again(start: Start, tmp_path: Path) -> None:
    memory, _ = start()
    memory.sync_all("first", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    file = tmp_path / "hermes" / "jotter.jsonl"
    file.rename(tmp_path / "away")
    file.mkdir()
    memory.sync_all("second", "ok", session_id="s1")
    until(lambda: "IsADirectoryError" in (memory.status()[0].last_error or ""))
    assert memory.status()[0].owed == 1
    file.rmdir()  # it is tried again at any moment from here on
    assert memory.flush_pending(DEADLINE)
    assert pages(tmp_path) == [["s1", "second"]]


def counted(log: pytest.LogCaptureFixture, event: str) -> int:
    return sum(record.message == event for record in log.records)


@pytest.mark.clause("M2", "D2")
def test_a_plugin_that_has_written_before_loses_no_turn_however_long_its_backend_is_down(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory, _ = start()
    memory.sync_all("first", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    file = tmp_path / "hermes" / "jotter.jsonl"
    file.unlink()
    file.mkdir()
    memory.sync_all("second", "ok", session_id="s1")
    until(lambda: counted(caplog, "memory.delivery_failed") > 2 * MAX_SWALLOWED)
    assert memory.status()[0].owed == 1
    file.rmdir()
    assert memory.flush_pending(DEADLINE)
    assert pages(tmp_path) == [["s1", "second"]]


def test_an_error_that_it_swallows_at_every_turn_from_the_first_is_taken_for_harmless(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "hermes" / "jotter.jsonl").mkdir(parents=True)
    memory, _ = start()
    for turn in ("first", "second"):
        memory.sync_all(turn, "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    assert counted(caplog, "memory.hermes_error_ignored") == 2


def test_what_is_set_reaches_the_plugin_where_it_looks(start: Start, tmp_path: Path) -> None:
    (tmp_path / "hermes").mkdir()
    (tmp_path / "hermes" / "config.yaml").write_text("jotter: {stamp: stamped}")
    memory, _ = start(values={"file": "elsewhere.jsonl"})
    memory.sync_all("where", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    assert pages(tmp_path, "elsewhere.jsonl") == [["s1", "where stamped"]]
    assert "k1" not in (tmp_path / "hermes" / "jotter.json").read_text()


def test_a_folder_without_such_a_plugin_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProviderInvalid, match="no memory plugin for hermes-agent"):
        HermesProvider(tmp_path, folder=tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from agent.memory_provider import MemoryProvider\nimport gateway.config",
            "No module named 'gateway'",
        ),
        ("from agent.memory_provider import MemoryProvider\nimport agent.soul", "no module 'agent.soul'"),
        ("from agent.memory_provider import MemoryProvider\nfrom . import gone", "gone"),
        ("from agent.memory_provider import MemoryProvider", "it registers no memory provider"),
        ("# register_memory_provider\nraise SystemExit", "SystemExit"),
    ],
)
def test_what_cant_be_loaded_is_reported_by_name(tmp_path: Path, text: str, said: str) -> None:
    plugin = tmp_path / "plugins" / "odd"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(text)
    loaded = load_providers([f"hermes:{plugin}"], folder=tmp_path, environment={})
    [problem] = loaded.problems
    assert said in str(problem)


def test_one_in_the_plugins_folder_is_found_by_itself(tmp_path: Path) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "jotter").symlink_to(JOTTER)
    loaded = load_providers([], tmp_path / "plugins", folder=tmp_path, environment={})
    assert [each.gated.name for each in loaded.ready] == ["hermes-jotter"]
    loaded.ready[0].gated.provider.shutdown()


@pytest.mark.clause("D4", "D6")
def test_after_shutdown_nothing_reaches_the_plugin(start: Start, tmp_path: Path) -> None:
    memory, provider = start()
    memory.sync_all("before", "ok", session_id="s1")
    assert memory.flush_pending(DEADLINE)
    memory.shutdown_all()
    provider.shutdown()
    provider.sync_turn("after", "no", session_id="s1")
    provider.queue_prefetch("after", session_id="s1")
    assert provider.prefetch("before", session_id="s1") == ""
    assert pages(tmp_path) == [["s1", "before"]]


def test_the_check_says_what_the_plugin_says(tmp_path: Path) -> None:
    provider = HermesProvider(JOTTER, folder=tmp_path)
    with pytest.raises(ProviderNotWorking, match="not configured"):
        provider.check(ProviderConfig())
    values = {"api_key": "k", "file": "other.jsonl"}
    assert "configured; its home is" in provider.check(resolve_config(declared_fields(provider), values))
    assert not (tmp_path / "hermes").exists()
    provider.shutdown()
