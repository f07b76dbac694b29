"""M10: what a provider returns is bounded, and what is cut says so."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import MemoryManager, SessionDB
from holdfast.core.clock import SystemClock
from holdfast.core.error_text import ERROR_CHARACTERS, error_text, error_words
from holdfast.core.errors import BoundaryFailed, ProviderNotWorking, Undeliverable
from holdfast.memory import CompletedTurn
from holdfast.memory.bounds import (
    BYTES_PER_TOKEN,
    FOUND_CHARACTERS,
    MAX_FOUND,
    MAX_TOOLS,
    NOTES_CHARACTERS,
    RECALL_CHARACTERS,
    RESULT_CHARACTERS,
    BoundedText,
    bound_text,
    share_budget,
)
from holdfast.memory.config import ProviderConfig, resolve_config
from holdfast.memory.contract import RECALL_TOKENS, Budgets, MemoryItem
from holdfast.memory.provider_check import ProviderCheck, shut_down_provider
from holdfast.memory.provider_gate import gate_provider
from holdfast.memory.retry import RetryPolicy
from holdfast.testing.providers import RecordingProvider
from tests.memory.gates import until

MARK = 120
"""The words on what was cut."""


def weight(text: str) -> int:
    return len(text.encode())


@pytest.mark.clause("M10")
@given(
    texts=st.lists(st.text(max_size=400).map(lambda text: bound_text(text, 10_000, "a")), max_size=6),
    tokens=st.integers(0, 300),
)
def test_texts_together_never_take_more_than_their_budget_and_nothing_is_cut_unsaid(
    texts: list[BoundedText], tokens: int
) -> None:
    given_texts = {str(number): text for number, text in enumerate(texts)}
    shared = share_budget(given_texts, tokens)
    assert sum(weight(each.text) for each in shared.values()) <= tokens * BYTES_PER_TOKEN
    for name, each in shared.items():
        whole = given_texts[name].text
        if each.cut:
            assert each.text == "" or f"[cut here: {each.cut} more characters" in each.text
        else:
            assert each.text == whole


@pytest.mark.clause("M10")
def test_a_greedy_provider_takes_nothing_from_a_modest_one() -> None:
    shared = share_budget({"greedy": BoundedText("x" * 100_000), "modest": BoundedText("y" * 1_000)}, 1_000)
    assert shared["modest"] == BoundedText("y" * 1_000)
    assert 2_800 <= weight(shared["greedy"].text) <= 3_000, "and gets what the other leaves"


@pytest.mark.clause("M10")
@pytest.mark.parametrize("window", [500, 2_000, 4_096, 8_192, 128_000, 1_000_000])
def test_memory_takes_a_small_part_of_any_window(window: int) -> None:
    budgets = Budgets.of(window)
    assert 0 < budgets.recall <= min(window // 8, 8_000)
    assert 0 < budgets.block <= min(window // 8, 4_000)
    assert Budgets.of(window, 10**6).recall == window // 2, "a person's choice still leaves room"
    assert Budgets.of(window, 100).recall == 100


class Flood(RecordingProvider):
    """Says far too much, whatever it is asked."""

    def __init__(self, text: Any, name: str = "flood") -> None:  # noqa: ANN401 - nonsense, too
        super().__init__(name)
        self.text = text

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        text: str = self.text
        return text

    def system_prompt_block(self) -> str:
        text: str = self.text
        return text

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        schemas: list[dict[str, Any]] = [{"name": "fine", "description": "fine", "parameters": {}}]
        schemas.append({"type": "function", "function": {"name": "huge", "description": "x" * 1_000_000}})
        schemas += [{"name": "odd", "parameters": {"default": object()}}, {"function": None}, {"name": ""}]
        return [*schemas, *({"name": f"tool{number}", "parameters": {}} for number in range(500))]

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:  # noqa: ANN401
        text: str = self.text
        return text

    def on_pre_compress(self, messages: list[Any]) -> str:
        text: str = self.text
        return text


class Browsed(Flood):
    """The same, for a person to look through."""

    def browse(self, query: str, limit: int = 10) -> list[MemoryItem]:
        return [MemoryItem(number, 0.0, "fact", self.text) for number in range(1_000)]

    def forget(self, memory_id: int) -> bool:
        return False

    def describe(self) -> object:
        return "a flood"


def remembering(*providers: RecordingProvider) -> MemoryManager:
    memory = MemoryManager(drain_seconds=1.0, recall_seconds=30)
    for each in providers:
        memory.add_provider(each)
    return memory


@pytest.mark.clause("M10")
def test_a_flood_is_bounded_wherever_it_comes_from() -> None:
    memory = remembering(Flood("x" * 5_000_000), Browsed("y" * 50_000, "browsed"))
    said: list[Any] = [{"role": "user", "content": "hi"}]
    recalled = {each.provider: each for each in memory.recall_all("q")}
    assert sum(len(each.text) for each in recalled.values()) <= RECALL_TOKENS * BYTES_PER_TOKEN
    # What is cut is all that is not there, but for the words that say so.
    kept = recalled["flood"].text.partition("\n[cut here")[0]
    assert len(kept) + recalled["flood"].cut >= 5_000_000
    assert len(memory.prefetch_all("q")) <= RECALL_TOKENS * BYTES_PER_TOKEN + 2
    assert len(memory.system_prompt_block(30)) <= 16_100
    assert len(memory.handle_tool_call("fine", {})) <= RESULT_CHARACTERS + MARK
    assert "[cut here" in memory.handle_tool_call("fine", {})
    assert len(memory.on_pre_compress(said, timeout=30)) <= 2 * (NOTES_CHARACTERS + MARK)
    found = memory.search("q", timeout=30).found
    assert sum(each.provider == "browsed" for each in found) <= MAX_FOUND
    assert all(len(each.text) <= FOUND_CHARACTERS + MARK for each in found if each.provider == "browsed")
    assert all(len(each.text) <= RECALL_CHARACTERS + MARK for each in found)
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_tools_that_are_too_many_too_large_or_nonsense_are_left_out_and_said() -> None:
    memory = remembering(Flood("x"))
    offered = memory.ask_tool_schemas(30).wait()
    names = [each["name"] for each in offered.functions]
    assert names[0] == "fine"
    assert len(names) <= MAX_TOOLS
    assert {"huge", "odd", ""}.isdisjoint(names)
    json.dumps(offered.functions)
    told = "\n".join(offered.notes)
    for said in ("huge, whose schema has", "odd, whose schema is no JSON", "a tool without a name"):
        assert f"flood's tools are used without {said}" in told
    assert "473 tools beyond the first 32" in told
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_tools_that_do_not_fit_a_small_window_are_left_out_whole() -> None:
    memory = remembering(Flood("x"))
    offered = memory.ask_tool_schemas(30, tokens=50).wait()
    assert weight(json.dumps(offered.functions)) <= 50 * BYTES_PER_TOKEN + 20
    assert [each["name"] for each in offered.functions][:2] == ["fine", "tool0"]
    assert any("which does not fit the model's window" in note for note in offered.notes)
    memory.shutdown_all()


@pytest.mark.clause("M10")
def test_half_surrogates_and_nuls_reach_no_prompt() -> None:
    memory = remembering(Flood("a \ud83d b \0 c"))
    for text in (
        memory.prefetch_all("q"),
        memory.system_prompt_block(30),
        memory.handle_tool_call("fine", {}),
        memory.on_pre_compress([{"role": "user", "content": "x"}], timeout=30),
    ):
        assert text.startswith("a ")
        assert "\0" not in text
        text.encode()
    memory.shutdown_all()


@pytest.mark.clause("M10", "M2")
@pytest.mark.parametrize("nonsense", [42, b"bytes", ["list"], object()])
def test_what_is_no_text_is_left_out(nonsense: object) -> None:
    memory = remembering(Flood(nonsense), RecordingProvider("quiet"))
    assert memory.prefetch_all("q") == ""
    assert memory.system_prompt_block(30) == ""
    assert memory.on_pre_compress([{"role": "user", "content": "x"}], timeout=30) == ""
    assert isinstance(memory.handle_tool_call("fine", {}), str)
    memory.shutdown_all()


class Wordy(RecordingProvider):
    """Fails at everything, with far too many words, which no store takes."""

    words = "\0" + "x" * 5_000_000

    def __init__(self, kind: type[Exception]) -> None:
        super().__init__("wordy")
        self._kind = kind

    def _fail(self) -> NoReturn:
        raise self._kind(self.words)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        self._fail()

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self._fail()

    def on_session_end(self, messages: list[Any], **kwargs: Any) -> None:  # noqa: ANN401
        self._fail()

    def check(self, config: ProviderConfig) -> str:
        self._fail()

    def shutdown(self) -> None:
        self._fail()


def is_bounded(text: str | None) -> bool:
    return (
        text is not None and len(text) < 2 * ERROR_CHARACTERS and "[cut here: " in text and "\0" not in text
    )


@pytest.mark.clause("M10")
@pytest.mark.parametrize("kind", [RuntimeError, Undeliverable])
def test_the_words_of_an_exception_are_bounded_wherever_they_are_shown(
    tmp_path: Path, kind: type[Exception]
) -> None:
    provider = Wordy(kind)
    with SessionDB.open(f"sqlite:///{tmp_path / 'store.db'}") as store:
        memory = MemoryManager(store, policy=RetryPolicy(max_attempts=1), drain_seconds=1.0)
        memory.add_provider(provider)
        memory.recall_all("q", session_id="s")
        assert is_bounded(memory.status()[0].last_error), "after a recall"
        memory.sync_all("hi", "hey", session_id="s")
        until(lambda: memory.status()[0].set_aside == 1)
        assert is_bounded(memory.status()[0].last_error), "after a delivery"
        assert is_bounded(store.outbox.list("set_aside")[0].last_error)
        with pytest.raises(BoundaryFailed) as failed:
            memory.on_session_end([{"role": "user", "content": "x"}], session_id="s", timeout=30)
        assert is_bounded(str(failed.value))
        memory.shutdown_all()


@pytest.mark.clause("M10")
@pytest.mark.parametrize("kind", [RuntimeError, Undeliverable, TimeoutError])
def test_the_words_of_an_exception_of_a_search_and_of_a_check_are_bounded(kind: type[Exception]) -> None:
    provider = Wordy(kind)
    memory = remembering(provider, RecordingProvider("quiet"))
    assert is_bounded(memory.search("q", timeout=30).failed["wordy"])
    gated = gate_provider(provider, SystemClock())
    with pytest.raises(ProviderNotWorking) as failed:
        ProviderCheck(gated, resolve_config(())).result()
    assert is_bounded(str(failed.value))
    assert is_bounded(shut_down_provider(gated))
    memory.shutdown_all()


class Unsayable(Exception):
    """Has words that can't be had."""

    def __str__(self) -> str:
        raise ValueError("no words")


def test_an_exception_whose_words_cannot_be_had_is_named() -> None:
    assert error_text(Unsayable()) == error_words(Unsayable()) == "Unsayable"
    assert error_text(ValueError()) == "ValueError"
    assert error_text(ValueError("what it says")) == "ValueError: what it says"
