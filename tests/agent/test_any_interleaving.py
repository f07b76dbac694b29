"""Whatever happens in whatever order, both model APIs accept the transcript and no word is lost."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from holdfast.agent import AgentOptions, Limits, Pools, SessionAgent
from holdfast.agent.transcript import Transcript
from holdfast.core.clock import SystemClock
from holdfast.core.contract import Message
from holdfast.core.errors import HoldfastError, KeyRejected, StreamBroken
from holdfast.models.contract import Finished, ModelPiece, ModelRequest, Retrying, TextPiece, ToolCallPiece
from holdfast.sessions import SessionDB
from holdfast.sessions.sqlite import SqliteEngine
from holdfast.testing import Call, ProcessDied, ScriptedModel
from holdfast.testing.faults import Moment
from holdfast.tools.contract import ToolContext
from tests.agent.agent_fixtures import DEADLINE, MortalEngine, a_tool, echo, require_valid
from tests.fast_run import examples

TOOLS = ("echo", "fails", "steers", "interrupts", "missing")


@dataclass(frozen=True)
class Said:
    """One message of the person's, what the model then does, and what goes wrong meanwhile."""

    answers: list[Any]
    interrupt_at: int | None
    die_at: int | None
    moment: Moment
    then: str


CALLS = st.builds(
    Call,
    tool=st.sampled_from(TOOLS),
    arguments=st.one_of(st.just({}), st.just({"a": "b"}), st.sampled_from(["", "[1", "nul\0l", '"x"'])),
    id=st.sampled_from(["", "same"]),
)
ANSWERS = st.one_of(
    st.text(min_size=1, max_size=30),
    st.just("a long answer " * 60),
    st.lists(CALLS, min_size=1, max_size=3),
    st.tuples(st.text(min_size=1, max_size=10), CALLS).map(list),
    st.just(["half an answer ", StreamBroken("m", "gone")]),
    st.just(["half an answer ", Retrying(1, 0.0, "broken"), "whole"]),
    st.just([]),
    st.just(KeyRejected("m", "no")),
)
TURNS = st.builds(
    Said,
    answers=st.lists(ANSWERS, max_size=4),
    interrupt_at=st.none() | st.integers(0, 8),
    die_at=st.none() | st.integers(0, 8),
    moment=st.sampled_from(["before", "after"]),
    then=st.sampled_from(["resume", "retry", "drop"]),
)


class Watched(ScriptedModel):
    """Checks every request by the APIs' rules before it answers."""

    def __init__(self, script: list[Any], window: int) -> None:
        super().__init__(script, context_window=window, record=False)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        require_valid(request.messages)
        entry = self._script[self.played] if self.played < len(self._script) else "over"
        if isinstance(entry, list) and any(isinstance(part, Retrying) for part in entry):
            self.played += 1
            yield TextPiece(str(entry[0]))
            yield entry[1]
            yield TextPiece(str(entry[2]))
            yield ToolCallPiece(0, id="x", name="echo", arguments="{}")
            yield Finished("tool_calls")
            return
        async for piece in super().stream(request):
            yield piece


class World:
    """A session over several lives of its process."""

    def __init__(self, window: int, pools: Pools) -> None:
        self.engine = MortalEngine(SqliteEngine(":memory:", clock=SystemClock(), patience=5.0))
        self.window = window
        self.pools = pools
        self.said: list[str] = []
        self.db = SessionDB.on(self.engine)
        self.db.create_session("s", source="test")
        self.agent = self.born([])

    def born(self, script: list[Any]) -> SessionAgent:
        self.db = SessionDB.on(self.engine)
        self.agent = SessionAgent(
            Watched(script, self.window),
            self.db,
            "s",
            tools=[echo(), self._failing(), self._steering(), self._interrupting()],
            options=AgentOptions(limits=Limits(max_steps=6), pools=self.pools),
        )
        return self.agent

    def speak(self, mode: Any) -> None:  # noqa: ANN401
        text = f"word {len(self.said)}"
        if mode == "interrupt":
            self.agent.interrupt(text)
        else:
            self.db.inbox.put("s", {"role": "user", "content": text}, mode=mode)
        self.said.append(text)

    def _failing(self) -> Any:  # noqa: ANN401
        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            raise OSError("no such thing")

        return a_tool("fails", run)

    def _steering(self) -> Any:  # noqa: ANN401
        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            self.speak("steer")
            return "steered"

        return a_tool("steers", run)

    def _interrupting(self) -> Any:  # noqa: ANN401
        async def run(context: ToolContext, arguments: dict[str, Any]) -> str:
            self.speak("interrupt")
            await asyncio.Event().wait()
            return "never"

        return a_tool("interrupts", run)

    async def live(self, turn: Said) -> None:
        self.born(turn.answers)
        self.engine.die_at(turn.die_at, turn.moment)
        text = f"word {len(self.said)}"
        try:
            at = 0
            stream = self.agent.stream(text)
            async for happened in stream:
                if at == 0:
                    self.said.append(text)
                event(type(happened).__name__)
                if at == turn.interrupt_at:
                    self.speak("interrupt")
                at += 1
        except HoldfastError:
            event("refused or failed")
        except ProcessDied:
            event("died")
        finally:
            self.engine.die_at(None)

    async def recover(self, then: str) -> None:
        """The next start: what is unfinished is resumed, retried or dropped."""
        self.born([[Call("echo")], "recovered"])
        if await self.agent.unfinished() is None:
            return
        event(then)
        with suppress(HoldfastError):
            await getattr(self.agent, then)()

    def check(self) -> None:
        end = self.db.sessions.live_end("s")
        transcript = Transcript(self.db.get_messages(end))
        if transcript.messages:
            require_valid(transcript.messages)
        assert self.db.turns.running(end) is None
        waiting = [str(each.message["content"]) for each in self.db.inbox.waiting(end)]
        told = [
            str(message["content"])
            for session in self.db.sessions.lineage(end)
            for message in _own(self.db, session)
            if message["role"] == "user"
        ]
        for text in self.said:
            assert text in told or text in waiting, f"{text!r} is lost"


def _own(db: SessionDB, session: str) -> list[Message]:
    return [stored.message for stored in db.sessions.read(session) if not stored.carried]


@settings(deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(TURNS, min_size=1, max_size=5), st.sampled_from([400, 100_000]))
def test_any_interleaving_leaves_a_transcript_that_both_apis_accept(turns: list[Said], window: int) -> None:
    pools = Pools()

    async def lives() -> None:
        async with asyncio.timeout(DEADLINE):
            world = World(window, pools)
            for turn in turns:
                await world.live(turn)
                await world.recover(turn.then)
                world.check()
            world.db.close()

    try:
        asyncio.run(lives())
    finally:
        pools.close(0)
