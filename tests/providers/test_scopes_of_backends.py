"""Backends that keep scopes apart by their own means: a bank in Hindsight, a user in mem0."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory import CompletedTurn, MemoryProvider
from holdfast.memory.config import ProviderConfig, parse_schema, resolve_config
from holdfast.memory.contract import KeepsScopes
from holdfast.memory.forgetting import ForgetRequest, ForgetsSelected, turn_key
from holdfast.providers.batch_provider import BatchProvider
from holdfast.providers.hindsight import HindsightMemory
from holdfast.providers.holographic import HolographicMemory
from holdfast.providers.honcho import HonchoMemory
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.testing.fake_hindsight import FakeHindsight
from tests.providers.contract_suite.mem0_case import Mem0LocalCase

SCOPES = ("", "telegram-main/person-123", "matrix-home/room-abc")


def turn(number: int, provider: str) -> CompletedTurn:
    said = f"my boat is called word{number}"
    key = turn_key(f"s{number}", f"t{number}", provider)
    return CompletedTurn(key, f"s{number}", f"t{number}", said, "Noted", [], 1_700_000_000.0)


@pytest.fixture
def hindsight(tmp_path: Path) -> Iterator[HindsightMemory]:
    with FakeHindsight() as server:
        provider = HindsightMemory(tmp_path, SystemClock(), environment={})
        texts = {"mode": "server", "url": server.url, "bank": "bank", "timeout_s": "5"}
        provider.initialize("", config=ProviderConfig(texts))
        yield provider
        provider.shutdown()


@pytest.fixture
def mem0(tmp_path: Path) -> Iterator[BatchProvider]:
    case = Mem0LocalCase(tmp_path)
    case.start()
    provider = case.make()
    assert isinstance(provider, BatchProvider)
    schema = parse_schema(provider.get_config_schema())
    provider.initialize("", config=resolve_config(schema, case.config(), {}))
    yield provider
    provider.shutdown()
    case.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hindsight", "mem0"])
def test_each_scope_finds_and_forgets_its_own_alone(name: str, request: pytest.FixtureRequest) -> None:
    provider: BatchProvider = request.getfixturevalue(name)
    assert isinstance(provider, KeepsScopes)
    views: list[MemoryProvider] = [provider, *(provider.for_scope(scope) for scope in SCOPES[1:])]
    for number, view in enumerate(views):
        assert isinstance(view, BatchProvider)
        view.sync_turns([turn(number, name)])
    for number, view in enumerate(views):
        recalled = view.prefetch("How is the boat called?")
        assert [other for other in range(len(SCOPES)) if f"word{other}" in recalled] == [number]
    wrong, right = views[2], views[1]
    forgotten = ForgetRequest("f", (("s1", "t1"),), ("s1",))
    assert isinstance(wrong, ForgetsSelected)
    assert isinstance(right, ForgetsSelected)
    assert wrong.forget_selected(forgotten).forgotten == 0
    assert right.forget_selected(forgotten).forgotten > 0
    assert "word1" not in right.prefetch("How is the boat called?")
    right.shutdown()  # what it shares stays open
    assert "word0" in provider.prefetch("How is the boat called?")


def test_a_memory_of_one_person_says_that_it_is_one(tmp_path: Path) -> None:
    memories = [
        HolographicMemory(tmp_path / "facts.db", clock=SystemClock()),
        HonchoMemory(tmp_path),
        OpenVikingMemory(tmp_path, SystemClock()),
    ]
    assert not any(isinstance(each, KeepsScopes) for each in memories)
