"""A provider that answers several recalls at once, and says how an answer is limited."""

from concurrent.futures import Future
from typing import Any

import pytest

from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.contract import RecallAnswer
from tests.memory.gates import until


class Concurrent(MemoryProvider):
    """Keeps the questions until the test answers them."""

    name = "concurrent"

    def __init__(self) -> None:
        self.asked: dict[str, Future[RecallAnswer]] = {}

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: object) -> None:
        pass

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        raise AssertionError("it is asked by begin_prefetch")

    def begin_prefetch(self, query: str, *, session_id: str = "") -> "Future[RecallAnswer]":
        self.asked[query] = Future()
        return self.asked[query]


@pytest.mark.clause("M9")
def test_a_second_question_does_not_wait_for_the_answer_of_the_first() -> None:
    provider, memory = Concurrent(), MemoryManager()
    memory.add_provider(provider)
    first = memory.ask_recall("one", session_id="s1")
    second = memory.ask_recall("two", session_id="s2")
    until(lambda: len(provider.asked) == 2)
    provider.asked["two"].set_result(RecallAnswer("the second", "by full text alone: busy"))
    [recalled] = second.wait()
    assert (recalled.outcome, recalled.text) == ("answered", "the second")
    assert recalled.note == "by full text alone: busy"
    provider.asked["one"].set_result(RecallAnswer("", "nothing was recalled: busy"))
    [recalled] = first.wait()
    assert (recalled.outcome, recalled.text, recalled.note) == ("answered", "", "nothing was recalled: busy")
    memory.shutdown_all()


def test_an_answer_that_is_no_recall_is_a_failure() -> None:
    provider, memory = Concurrent(), MemoryManager()
    memory.add_provider(provider)
    asked = memory.ask_recall("one", session_id="s1")
    until(lambda: "one" in provider.asked)
    provider.asked["one"].set_exception(RuntimeError("no memory today"))
    [recalled] = asked.wait()
    assert recalled.outcome == "failed"
    memory.shutdown_all()
