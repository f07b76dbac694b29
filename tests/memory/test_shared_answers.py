"""Conversations that begin together ask a provider about itself only once."""

from holdfast.memory import MemoryManager
from holdfast.testing import FakeClock
from holdfast.testing.providers import RecordingProvider


class Counting(RecordingProvider):
    """Says how often its block was asked for."""

    asked = 0

    def system_prompt_block(self) -> str:
        self.asked += 1
        return f"asked {self.asked} times"


def test_an_answer_is_shared_for_a_second_and_then_asked_for_again() -> None:
    clock, provider = FakeClock(), Counting()
    memory = MemoryManager(clock=clock)
    memory.add_provider(provider)
    try:
        assert [memory.system_prompt_block() for _ in range(3)] == ["asked 1 times"] * 3
        clock.advance(1.0)
        assert memory.system_prompt_block() == "asked 2 times"
    finally:
        memory.shutdown_all()
