"""How memory hears of a finished subagent: on the write lane, in order, waited for by nobody."""

import pytest

from holdfast.testing.providers import RecordingProvider
from tests.memory.conftest import MakeManager
from tests.memory.gates import Gate


@pytest.mark.clause("M1", "D8")
def test_a_delegation_is_heard_behind_what_its_session_is_owed_and_never_waited_for(
    make_manager: MakeManager,
) -> None:
    gate, provider, memory = Gate(), RecordingProvider(), make_manager()
    order: list[str] = []

    def deliver(turns: object) -> None:
        gate()
        order.append("turn")

    provider.before = deliver
    provider.noted = order.append
    memory.add_provider(provider)
    memory.sync_all("one", "1", session_id="s")
    gate.wait_reached()
    memory.on_delegation("count", "three", session_id="s", child_session_id="c")
    assert "on_delegation" not in order, "the call returned while the provider was wedged"
    gate.open()
    assert memory.flush_pending()
    assert order == ["initialize", "turn", "on_delegation"]
    assert provider.calls[-1] == ("on_delegation", ("count", "three", {"child_session_id": "c"}))


def test_a_provider_that_fails_to_hear_of_a_delegation_shows_it_and_hurts_nobody(
    make_manager: MakeManager,
) -> None:
    class Deaf(RecordingProvider):
        def on_delegation(self, task: str, result: str, **kwargs: object) -> None:
            raise RuntimeError("what was that?")

    memory = make_manager()
    memory.add_provider(Deaf("deaf"))
    memory.add_provider(RecordingProvider("keen"))
    memory.on_delegation("count", "three", child_session_id="c")
    assert memory.flush_pending()
    assert [status.last_error for status in memory.status()] == ["RuntimeError: what was that?", None]


def test_after_shutdown_a_delegation_is_heard_by_nobody(make_manager: MakeManager) -> None:
    provider, memory = RecordingProvider(), make_manager()
    memory.add_provider(provider)
    memory.shutdown_all()
    memory.on_delegation("count", "three", child_session_id="c")
    assert "on_delegation" not in [call for call, _ in provider.calls]
