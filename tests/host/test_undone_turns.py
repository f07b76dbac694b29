"""What was taken back is forgotten by memory with it, and what failed never reaches it."""

from collections.abc import Awaitable, Callable
from typing import Any

from holdfast.core.errors import KeyRejected
from holdfast.memory import MemoryManager
from holdfast.memory.forgetting import ForgetReport, ForgetRequest
from holdfast.sessions import SessionDB
from holdfast.testing.providers import RecordingProvider
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


class ForgettingProvider(RecordingProvider):
    """Keeps which turns it was told to forget."""

    def __init__(self) -> None:
        super().__init__("p")
        self.forgotten: list[str] = []

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        self.forgotten += [turn for _, turn in request.turns]
        return ForgetReport(len(request.turns))


def test_undone_turns_are_forgotten_and_branches_keep_theirs(db: SessionDB, wait: Wait) -> None:
    provider = ForgettingProvider()
    memory = MemoryManager(db, drain_seconds=5.0)
    memory.add_provider(provider)

    async def scenario() -> None:
        async with a_host(db, ["One.", "Made up.", "Three.", "Four."], memory=memory) as host:
            for number, text in enumerate(("first", "second", "third"), start=1):
                await host.send("s", text)
                await until_turns_end(host, "s", turns=number)
            stored = await host.records.messages("s")
            turns = list(dict.fromkeys(str(each.turn_id) for each in stored))
            kept = await host.records.branch("s")
            undone = await host.commands.truncate("s", before=stored[2].seq)
            await until(lambda: set(provider.forgotten) == set(turns[1:]))
            assert [each.kind for each in db.forgettings.list()] == ["conversation"]

            # The branch took the place of the conversation: what it has copies of can be undone there too.
            await host.commands.truncate(undone, before=0)
            await until(lambda: set(provider.forgotten) == set(turns))

            # A branch beside a conversation that goes on has copies of what stands there.
            provider.forgotten.clear()
            await host.send(kept, "fourth")
            await until_turns_end(host, kept)
            await host.commands.truncate(kept, before=0)
            await until(lambda: len(provider.forgotten) == 1)
            assert not set(provider.forgotten) & set(turns)
            assert db.check() == []

    wait(scenario())


def test_a_turn_that_failed_is_not_remembered(db: SessionDB, wait: Wait) -> None:
    provider = RecordingProvider("p")
    memory = MemoryManager(db, drain_seconds=5.0)
    memory.add_provider(provider)

    async def scenario() -> None:
        script = [["It is certainly", KeyRejected("m", "no")], "Right."]
        async with a_host(db, script, memory=memory) as host:
            await host.send("s", "what is it?")
            await until_turns_end(host, "s")
            await host.commands.retry("s")
            await until(lambda: bool(provider.said()))

    wait(scenario())
    assert [turn.assistant_content for turn in provider.turns] == ["Right."]
