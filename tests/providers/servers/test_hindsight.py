"""What is Hindsight's own: operations, banks, tags, budgets, tools, and a server of our own."""

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.errors import InvalidInput, ProviderUnavailable, Undeliverable
from holdfast.core.secret import Secret
from holdfast.memory.config import ProviderConfig, missing_fields, parse_schema, resolve_config
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.hindsight import HindsightMemory
from holdfast.providers.hindsight.local_server import server_environment
from holdfast.providers.hindsight.settings import CLOUD_URL, bank_name, read_settings
from holdfast.testing.fake_hindsight import FakeHindsight
from holdfast.testing.faulty_server import Fault
from tests.memory.gates import until

# A program that stands for the real server: it answers on the port it is told, and ends when asked to.
PROGRAM = """
import os, sys, threading, signal
sys.path[:0] = {path!r}
from holdfast.testing.fake_hindsight import FakeHindsight
server = FakeHindsight(port=int(os.environ["HINDSIGHT_API_PORT"]))
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with open({log!r}, "a") as out:
    out.write(f"{{os.getpid()}}\\n")
with server:
    stop.wait()
"""


@pytest.fixture
def server() -> Iterator[FakeHindsight]:
    with FakeHindsight() as serving:
        yield serving


def config(server: FakeHindsight, **texts: str) -> ProviderConfig:
    return ProviderConfig({"mode": "server", "url": server.url, "bank": "bank", "timeout_s": "5", **texts})


@pytest.fixture
def memory(server: FakeHindsight, tmp_path: Path) -> Iterator[HindsightMemory]:
    provider = HindsightMemory(tmp_path, SystemClock(), environment={})
    provider.initialize("", config=config(server, tags="mine, holdfast", recall_tokens="777"))
    yield provider
    provider.shutdown()


def turn(number: int, text: str = "hello", session: str = "s1") -> CompletedTurn:
    return CompletedTurn(f"k{number}", session, f"t{number}", text, "You said", [], 1_700_000_000.0)


def test_a_turn_is_appended_to_its_session_with_when_and_whence(
    server: FakeHindsight, memory: HindsightMemory
) -> None:
    memory.sync_turns([turn(1, "my cat is called Miso")])
    (item,) = server.items()
    assert item["content"] == "user: my cat is called Miso\n\nassistant: You said"
    assert item["document_id"] == "s1"
    assert item["update_mode"] == "append"
    assert item["metadata"] == {"session": "s1", "turn": "t1"}
    assert item["tags"] == ["mine", "holdfast"]
    assert item["timestamp"].startswith("2023-11-14T22:13:20")


@pytest.mark.clause("D2")
def test_a_turn_counts_as_delivered_only_once_its_operation_is_completed(tmp_path: Path) -> None:
    with FakeHindsight(polls=10**9) as server:
        provider = HindsightMemory(tmp_path, SystemClock(), environment={})
        provider.initialize("", config=config(server, settle_s="0.3"))
        with pytest.raises(ProviderUnavailable, match="still processing"):
            provider.sync_turns([turn(1)])
        provider.shutdown()


@pytest.mark.clause("D2", "D3")
def test_an_operation_that_failed_on_the_server_is_set_going_again(
    server: FakeHindsight, memory: HindsightMemory
) -> None:
    server.failing_operations = 1
    memory.sync_turns([turn(1)])
    assert len(server.items()) == 1
    server.failing_operations = 2
    with pytest.raises(ProviderUnavailable, match="the model gave no facts"):
        memory.sync_turns([turn(2)])
    memory.sync_turns([turn(2)])
    assert [item["metadata"]["turn"] for item in server.items()] == ["t1", "t2"]


@pytest.mark.clause("D3")
def test_a_turn_whose_operation_belongs_to_something_else_is_given_up(
    server: FakeHindsight, memory: HindsightMemory
) -> None:
    server.plan(Fault("/memories", "refuse", status=409))
    with pytest.raises(Undeliverable, match="409"):
        memory.sync_turns([turn(1)])


@pytest.mark.clause("M6")
def test_the_next_turn_of_a_session_waits_until_the_one_before_it_is_processed(
    server: FakeHindsight, memory: HindsightMemory
) -> None:
    server.failing_operations = 2
    with pytest.raises(ProviderUnavailable):
        memory.sync_turns([turn(1), turn(2)])
    assert len([call for call in server.calls if call.parts[-1] == "memories"]) == 1
    memory.sync_turns([turn(1), turn(2)])
    assert [item["metadata"]["turn"] for item in server.items()] == ["t1", "t2"]


def test_recall_is_asked_with_the_budget_and_the_tags_of_the_settings(
    server: FakeHindsight, memory: HindsightMemory
) -> None:
    assert memory.prefetch("anything") == ""  # a bank that nobody wrote to yet is empty, not an error
    memory.sync_turns([turn(1, "my cat is called Miso")])
    said = memory.prefetch("the cat")
    assert said.startswith("Remembered from earlier")
    assert "- [14 November 2023] user: my cat is called Miso" in said
    asked = server.calls[-1].request.json()
    assert (asked["budget"], asked["max_tokens"]) == ("low", 777)


@pytest.mark.parametrize(
    ("name", "arguments", "key"),
    [
        ("hindsight_recall", {"query": "cat", "tags": ["mine"]}, "found"),
        ("hindsight_reflect", {"query": "what about the cat", "budget": "high"}, "answer"),
        ("hindsight_retain", {"content": "the user likes tea", "tags": ["taste"]}, "retained"),
    ],
)
def test_the_agents_tools_answer(
    name: str, arguments: dict[str, Any], key: str, memory: HindsightMemory
) -> None:
    memory.sync_turns([turn(1, "my cat is called Miso")])
    assert name in {schema["function"]["name"] for schema in memory.get_tool_schemas()}
    assert json.loads(memory.handle_tool_call(name, arguments))[key]
    assert "error" in json.loads(memory.handle_tool_call(name, {"nonsense": 1}))


def test_a_note_kept_twice_is_one_note(server: FakeHindsight, memory: HindsightMemory) -> None:
    for _ in range(2):
        memory.handle_tool_call("hindsight_retain", {"content": "the user likes tea"})
    assert [item["content"] for item in server.items()] == ["the user likes tea"]


def test_a_bank_belongs_to_the_user_or_to_a_project() -> None:
    assert bank_name("holdfast", None) == "holdfast"
    assert bank_name("a/b c", None) == "a-b-c"
    here, there = bank_name("holdfast", Path("/a/work")), bank_name("holdfast", Path("/b/work"))
    assert here.startswith("holdfast-work-")
    assert here != there
    per_project = ProviderConfig({"mode": "server", "per": "project", "bank": "x"})
    assert read_settings(per_project, Path("/a/work")).bank == bank_name("x", Path("/a/work"))


def test_the_schema_asks_only_for_what_a_mode_needs(tmp_path: Path) -> None:
    fields = parse_schema(HindsightMemory(tmp_path, SystemClock(), environment={}).get_config_schema())
    assert [each.key for each in missing_fields(fields, resolve_config(fields, {"mode": "cloud"}))] == [
        "api_key"
    ]
    assert missing_fields(fields, resolve_config(fields, {"mode": "server"})) == []
    assert missing_fields(fields, resolve_config(fields, {"mode": "local"})) == []
    cloud = resolve_config(fields, {"mode": "cloud", "api_key": "k"})
    assert read_settings(cloud, tmp_path).url == CLOUD_URL
    assert read_settings(cloud, tmp_path).key == Secret("k")


def test_in_the_cloud_the_key_of_the_account_is_sent(tmp_path: Path) -> None:
    with FakeHindsight("the account's key") as server:
        provider = HindsightMemory(tmp_path, SystemClock(), environment={})
        told = {"mode": "cloud", "cloud_url": server.url, "bank": "bank"}
        provider.initialize("", config=ProviderConfig(told, {"api_key": Secret("the account's key")}))
        provider.sync_turns([turn(1)])
        assert len(server.items()) == 1
        provider.shutdown()


@pytest.mark.parametrize("value", ["many", "0", "-1", "inf"])
def test_a_number_that_is_none_is_refused_by_name(value: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="settle_s"):
        read_settings(ProviderConfig({"settle_s": value}), tmp_path)


def test_the_check_says_which_server_it_found_and_why_one_does_not_work(
    server: FakeHindsight, tmp_path: Path
) -> None:
    provider = HindsightMemory(tmp_path, SystemClock(), environment={})
    assert provider.check(config(server)) == f"Hindsight 1.1.0 at {server.url}, bank bank"
    server.plan(Fault("recall", "refuse", status=401))
    with pytest.raises(ProviderUnavailable, match="refused the key"):
        provider.check(config(server))
    server.stop()
    with pytest.raises(ProviderUnavailable, match="Connect"):
        provider.check(config(server))


# a server of our own


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A stand-in for `hindsight-api`; each run notes its process."""
    file = tmp_path / "bin" / "hindsight-api"
    file.parent.mkdir()
    script = file.with_suffix(".py")
    script.write_text(PROGRAM.format(path=sys.path, log=str(tmp_path / "started")))
    # Through a shell: the path of an interpreter may hold spaces, and then no first line can name it.
    file.write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} {shlex.quote(str(script))}\n")
    file.chmod(0o755)
    return file


def started(folder: Path) -> list[int]:
    file = folder / "started"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def local(program: Path) -> ProviderConfig:
    return ProviderConfig({"mode": "local", "command": str(program), "bank": "bank", "timeout_s": "5"})


@pytest.mark.slow
def test_a_local_server_is_started_shared_by_processes_and_stopped(program: Path, tmp_path: Path) -> None:
    one, two = (HindsightMemory(tmp_path, SystemClock(), environment=os.environ) for _ in range(2))
    try:
        one.initialize("", config=local(program))
        two.initialize("", config=local(program))
        one.sync_turns([turn(1, "my cat is called Miso")])
        assert "Miso" in two.prefetch("the cat")
        (process,) = started(tmp_path)
        assert lives(process)
        one.shutdown()
        until(lambda: not lives(process))
        # Whoever is left starts it again.
        two.sync_turns([turn(2, "my dog is called Rex")])
        assert "Rex" in two.prefetch("the dog")
    finally:
        one.shutdown()
        two.shutdown()
    until(lambda: not any(map(lives, started(tmp_path))))
    assert len(started(tmp_path)) == 2


@pytest.mark.slow
@pytest.mark.clause("D3")
def test_a_local_server_that_died_is_started_again(program: Path, tmp_path: Path) -> None:
    provider = HindsightMemory(tmp_path, SystemClock(), environment=os.environ)
    try:
        provider.initialize("", config=local(program))
        (process,) = started(tmp_path)
        os.kill(process, signal.SIGKILL)
        until(lambda: not lives(process))

        def delivered() -> bool:
            try:
                provider.sync_turns([turn(1)])
            except ProviderUnavailable:
                return False
            return True

        until(delivered)
        assert len(started(tmp_path)) == 2
    finally:
        provider.shutdown()


def test_a_local_server_is_told_its_model_and_nothing_else_of_ours(tmp_path: Path) -> None:
    told = ProviderConfig(
        {"mode": "local", "llm_base_url": "http://model/v1", "llm_model": "m"}, {"llm_key": Secret("k")}
    )
    settings = read_settings(told, tmp_path).local
    assert settings is not None
    ours = {"PATH": "/bin", "HOME": "/home/me", "OPENAI_API_KEY": "mine alone"}
    environment = server_environment(settings, ours, 4321)
    assert environment["HINDSIGHT_API_PORT"] == "4321"
    assert environment["HINDSIGHT_API_LLM_API_KEY"] == "k"
    assert environment["HINDSIGHT_API_EMBEDDINGS_OPENAI_BASE_URL"] == "http://model/v1"
    assert environment["HINDSIGHT_API_EMBEDDINGS_OPENAI_API_KEY"] == "k"
    assert environment["PATH"] == "/bin"
    assert "mine alone" not in environment.values()


def test_a_local_server_that_is_not_installed_is_said_with_the_command_to_install_it(tmp_path: Path) -> None:
    provider = HindsightMemory(tmp_path, SystemClock(), environment={"PATH": str(tmp_path)})
    nothing = ProviderConfig({"mode": "local", "command": "hindsight-api"})
    with pytest.raises(InvalidInput, match="uv tool install 'hindsight-api-slim"):
        provider.check(nothing)
    with pytest.raises(InvalidInput, match="is not installed"):
        provider.initialize("", config=nothing)
    provider.shutdown()
