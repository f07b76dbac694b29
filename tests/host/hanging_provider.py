"""A provider whose calls hang until a test lets them go, and words said to a host one after another."""

import threading
from collections.abc import Callable, Iterator

import pytest

from holdfast.core.events import SessionSnapshot, TurnCompleted, TurnFailed, TurnInterrupted
from holdfast.host import SessionHost
from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import DEADLINE


class HangingProvider(RecordingProvider):
    """A provider whose calls of some kinds hang until the test lets them go."""

    def __init__(self, *kinds: str) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.reached = threading.Event()
        self.before = lambda _: self._hang("sync_turns", kinds)
        self.before_recall = lambda _: self._hang("prefetch", kinds)
        self.noted = lambda call: self._hang(call, kinds)

    def _hang(self, call: str, kinds: tuple[str, ...]) -> None:
        if call in kinds:
            self.reached.set()
            assert self.gate.wait(DEADLINE)

    def committed(self) -> list[list[str]]:
        """What was said in each stretch that was committed."""
        with self.lock:
            ends = [messages for call, messages in self.calls if call == "on_session_end"]
        return [[message["content"] for message in messages] for messages in ends]


@pytest.fixture
def wedged() -> Iterator[Callable[..., HangingProvider]]:
    made: list[HangingProvider] = []

    def make(*kinds: str) -> HangingProvider:
        made.append(HangingProvider(*kinds))
        return made[-1]

    yield make
    for provider in made:
        provider.gate.set()


def memory_with(db: SessionDB, provider: RecordingProvider) -> MemoryManager:
    memory = MemoryManager(db, drain_seconds=1.0, recall_seconds=0.05)
    memory.add_provider(provider)
    return memory


async def run_turns(host: SessionHost, session: str, *texts: str) -> None:
    """Send the messages one after another, each after the turn of the one before."""
    for text in texts:
        async for numbered in host.events(session):
            if isinstance(numbered.event, SessionSnapshot):
                await host.send(session, text)
            if isinstance(numbered.event, (TurnCompleted, TurnInterrupted, TurnFailed)):
                break
