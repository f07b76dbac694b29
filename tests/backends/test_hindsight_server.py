"""Hindsight's real server: what the provider relies on, a model that fails, the tools, and a local server."""

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from holdfast import MemoryManager, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.memory.retry import RetryPolicy
from holdfast.providers.hindsight import HindsightMemory
from holdfast.testing.faulty_server import Fault
from tests.backends.conftest import spoken
from tests.backends.model import CHAT, RuleModel
from tests.backends.servers import HindsightServer
from tools.backends import program

pytestmark = [pytest.mark.backends, pytest.mark.timeout(600)]

QUICK = RetryPolicy(initial_delay_seconds=0.1, max_delay_seconds=1.0, max_attempts=10_000)
PATIENCE = 120.0


@pytest.fixture
def bank() -> str:
    return f"bank-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def memory(hindsight: HindsightServer, bank: str, tmp_path: Path) -> Iterator[MemoryManager]:
    with SessionDB(tmp_path / "holdfast.db") as db:
        manager = MemoryManager(db, policy=QUICK)
        told = {"mode": "server", "url": hindsight.url, "bank": bank, "tags": "tests"}
        config = ProviderConfig(told, {"server_key": Secret(hindsight.key)})
        manager.add_provider(HindsightMemory(tmp_path, SystemClock(), environment={}), config=config)
        yield manager
        manager.shutdown_all()


@pytest.mark.clause("D2", "D3", "M6")
def test_a_model_that_fails_behind_the_server_costs_no_turn_and_no_order(
    hindsight: HindsightServer, bank: str, model: RuleModel, memory: MemoryManager
) -> None:
    session = f"session-{bank}"
    failing = model.plan(Fault(CHAT, "refuse", status=500, times=4))
    for number in range(3):
        memory.sync_all(f"turn {number}", "ok", session_id=session)
    assert memory.flush_pending(PATIENCE)
    assert failing.met.is_set()
    assert spoken(hindsight.document(bank, session)) == ["turn 0", "turn 1", "turn 2"]


def test_the_tools_recall_reflect_and_retain(memory: MemoryManager) -> None:
    memory.sync_all("My cat is called Miso.", "Noted.", session_id="s")
    assert memory.flush_pending(PATIENCE)
    found = json.loads(memory.handle_tool_call("hindsight_recall", {"query": "my cat", "tags": ["tests"]}))
    assert any("Miso" in line for line in found["found"])
    nothing = memory.handle_tool_call("hindsight_recall", {"query": "my cat", "tags": ["another"]})
    assert json.loads(nothing) == {"found": []}
    assert json.loads(memory.handle_tool_call("hindsight_retain", {"content": "user: I like tea."}))[
        "retained"
    ]
    again = json.loads(memory.handle_tool_call("hindsight_recall", {"query": "I like tea"}))
    assert any("tea" in line for line in again["found"])
    answer = json.loads(memory.handle_tool_call("hindsight_reflect", {"query": "What is my cat called?"}))
    assert answer["answer"]


def test_the_server_ignores_an_operation_that_it_knows(hindsight: HindsightServer, bank: str) -> None:
    item = {"content": "user: once", "document_id": "d", "update_mode": "append"}
    body = {"items": [item], "async": True, "operation_id": str(uuid.uuid4())}
    with httpx2.Client(headers={"Authorization": f"Bearer {hindsight.key}"}, timeout=60) as client:
        path = f"{hindsight.url}/v1/default/banks/{bank}"
        for _ in range(3):
            assert client.post(f"{path}/memories", json=body).is_success
        while client.get(f"{path}/operations/{body['operation_id']}").json()["status"] != "completed":
            pass
        assert client.post(f"{path}/memories", json=body).is_success
        # In another bank the same id is refused, so it must depend on the bank.
        assert client.post(f"{path}-2/memories", json=body).status_code == 409
    assert spoken(hindsight.document(bank, "d")) == ["once"]


@pytest.fixture
def own_database(database: str) -> str:
    name = f"local_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return database.rsplit("/", 1)[0] + f"/{name}"


def test_a_local_server_is_started_and_stopped_with_the_program(
    model: RuleModel, own_database: str, bank: str, tmp_path: Path
) -> None:
    found = program("hindsight")
    assert found is not None
    told = {
        "mode": "local",
        "command": str(found),
        "bank": bank,
        "llm_provider": "openai",
        "llm_base_url": model.base_url,
        "llm_model": "rules",
        "embeddings_base_url": model.base_url,
        "embeddings_model": "rules",
        "database_url": own_database,
    }
    keys = {"llm_key": Secret("none"), "embeddings_key": Secret("none")}
    provider = HindsightMemory(tmp_path, SystemClock(), environment=os.environ)
    assert str(found) in provider.check(ProviderConfig(told, keys))
    try:
        provider.initialize("", config=ProviderConfig(told, keys))
        provider.sync_turns([CompletedTurn("k", "s", "t", "My cat is called Miso.", "ok", [], 1e9)])
        assert "Miso" in provider.prefetch("my cat")
        url = json.loads((tmp_path / "hindsight" / "server.json").read_text())["url"]
        assert httpx2.get(f"{url}/health").is_success
    finally:
        provider.shutdown()
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(f"{url}/health")
    left = subprocess.run(["pgrep", "-f", f"{tmp_path}"], capture_output=True, text=True, check=False)
    assert left.stdout == ""
