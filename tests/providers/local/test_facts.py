"""With facts on, one recall has two sources: what was said, and facts, in one block and one budget."""

from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path

import pytest

from holdfast.memory.config import ProviderConfig
from holdfast.memory.forgetting import ForgetRequest, turn_key
from holdfast.providers.local import LocalMemory
from holdfast.providers.local.facts import FIRST_ID
from holdfast.providers.recall_text import estimated_tokens
from holdfast.testing import FakeClock
from tests.providers.local.completed_turns import turn

pytest.importorskip("numpy")

Open = Callable[..., LocalMemory]


@pytest.fixture
def open_with_facts(tmp_path: Path) -> Iterator[Open]:
    opened: list[LocalMemory] = []

    def opener(facts: str = "true", **options: int) -> LocalMemory:
        memory = LocalMemory(tmp_path / "memory.db", clock=FakeClock(), embedder=None, zone=UTC, **options)
        memory.initialize("s", config=ProviderConfig({"facts": facts}))
        opened.append(memory)
        return memory

    yield opener
    for memory in opened:
        memory.shutdown()


def test_facts_are_off_unless_they_are_wanted(open_with_facts: Open, tmp_path: Path) -> None:
    memory = open_with_facts("false")
    memory.sync_turns([turn(1, "My favourite colour is green.")])
    assert not (tmp_path / "facts.db").exists()
    assert memory.get_config_schema()[0]["default"] == "false"
    assert "fact " not in memory.prefetch("favourite colour")


def test_a_fact_stands_beside_what_was_said(open_with_facts: Open) -> None:
    memory = open_with_facts(turns_in_context=20)
    memory.sync_turns([turn(1, "My favourite colour is green.")])
    # The turn itself is in the context of its session, so only the fact of it is recalled.
    block = memory.prefetch("What is my favourite colour?", session_id="s1")
    assert f"fact {FIRST_ID + 1}: " in block
    assert "green" in block


def test_a_fact_that_a_recalled_turn_states_is_not_repeated(open_with_facts: Open) -> None:
    memory = open_with_facts()
    memory.sync_turns([turn(1, "My favourite colour is green.")])
    assert memory.prefetch("What is my favourite colour?", session_id="other").count("green") == 1


def test_both_sources_share_one_budget(open_with_facts: Open) -> None:
    memory = open_with_facts(token_budget=120, turns_in_context=20)
    memory.sync_turns([turn(n, f"My favourite colour number {n} is green.") for n in range(30)])
    assert 0 < estimated_tokens(memory.prefetch("favourite colour", session_id="s1")) <= 120


def test_facts_are_found_and_forgotten_with_their_turn(open_with_facts: Open) -> None:
    memory = open_with_facts()
    memory.sync_turns([turn(1, "My favourite colour is green.")])
    facts = [each for each in memory.browse("favourite colour") if each.id >= FIRST_ID]
    assert [each.text for each in memory.memories_with([facts[0].id])] == [facts[0].text]
    report = memory.forget_selected(ForgetRequest("k", (("s1", "s1-t1"),), ("s1",)))
    assert report.forgotten == 1  # the passage has another key than the outbox gives
    assert memory.browse("favourite colour")[0].kind == "turn"
    assert turn_key("s", "t", "local") == "s/t/local"


def test_a_single_fact_is_forgotten_by_its_number(open_with_facts: Open) -> None:
    memory = open_with_facts()
    memory.sync_turns([turn(1, "My favourite colour is green.")])
    (fact,) = [each for each in memory.browse("favourite colour") if each.id >= FIRST_ID]
    assert memory.forget(fact.id)
    assert not memory.forget(fact.id)
    assert [each.kind for each in memory.browse("favourite colour")] == ["turn"]
