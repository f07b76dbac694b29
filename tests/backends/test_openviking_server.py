"""OpenViking's real server: extraction that fails, is cut off or is left behind, and large sessions."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.secret import Secret
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.openviking import OpenVikingMemory
from holdfast.testing.faulty_server import Fault
from tests.backends.model import CHAT, RuleModel
from tests.backends.servers import OpenVikingServer
from tests.backends.test_both_servers import until

pytestmark = [pytest.mark.backends, pytest.mark.timeout(600)]


@pytest.fixture
def word() -> str:
    """A word that only this test says."""
    return f"word{uuid.uuid4().hex[:8]}"


@contextmanager
def life(server: OpenVikingServer, folder: Path) -> Iterator[OpenVikingMemory]:
    provider = OpenVikingMemory(folder, SystemClock())
    config = ProviderConfig({"url": server.url}, {"api_key": Secret(server.key)})
    provider.initialize("", config=config)
    try:
        yield provider
    finally:
        provider.shutdown()


def turn(word: str, number: int = 0) -> CompletedTurn:
    text = f"turn {number} about {word}"
    return CompletedTurn(f"{word}/{number}", f"session-{word}", f"{number}", text, "ok", [], 1.7e9)


def extracted(provider: OpenVikingMemory) -> Callable[[], bool]:
    def done() -> bool:
        counts = provider.describe()
        return not (counts.extracting or counts.uncommitted or counts.unsent)

    return done


def kept(server: OpenVikingServer, word: str) -> list[str]:
    return sorted(text for text in server.memories() if word in text)


@pytest.mark.clause("D3")
def test_what_could_not_be_extracted_is_sent_again(
    openviking: OpenVikingServer, model: RuleModel, word: str, tmp_path: Path
) -> None:
    with life(openviking, tmp_path) as provider:
        provider.sync_turns([turn(word)])
        # The server asks its model several times before it gives up.
        failing = model.plan(Fault(CHAT, "refuse", status=400, times=1))
        provider.on_session_end([], session_id=f"session-{word}")
        until(extracted(provider), "the turn is extracted")
        assert failing.met.is_set()
    assert kept(openviking, word) == [f"turn 0 about {word}"]


@pytest.mark.clause("L13")
def test_an_extraction_left_behind_is_followed_by_the_next_life(
    openviking: OpenVikingServer, word: str, tmp_path: Path
) -> None:
    with life(openviking, tmp_path) as provider:
        provider.sync_turns([turn(word, number) for number in range(3)])
        provider.on_session_end([], session_id=f"session-{word}")
    with life(openviking, tmp_path) as provider:
        until(extracted(provider), "the turns are extracted")
        assert provider.describe().done == 3
    assert kept(openviking, word) == [f"turn {number} about {word}" for number in range(3)]


@pytest.mark.clause("L13", "D3")
def test_a_server_killed_while_it_extracts_has_it_all_in_the_end(
    openviking: OpenVikingServer, word: str, tmp_path: Path
) -> None:
    with life(openviking, tmp_path) as provider:
        provider.sync_turns([turn(word, number) for number in range(3)])
        provider.on_session_end([], session_id=f"session-{word}")
        openviking.kill()
        openviking.start()
        until(extracted(provider), "the turns are extracted")
    assert kept(openviking, word) == [f"turn {number} about {word}" for number in range(3)]


def test_a_long_backlog_arrives_in_order(openviking: OpenVikingServer, word: str, tmp_path: Path) -> None:
    with life(openviking, tmp_path) as provider:
        provider.sync_turns([turn(word, number) for number in range(130)])
    said = [text for text in openviking.live(f"session-{word}") if text != "ok"]
    assert said == [f"turn {number} about {word}" for number in range(130)]
