"""How many events a second pass from a model to a reader: the model alone, through an agent, through a host.

A scripted model gives pieces of text as fast as it can, and lets others run after each hundred, as a model
does whose answer comes from the network. The four readers take turns round by round; a rate is events per
second of CPU, so that what else the machine does counts less. Making an event costs more than a piece of the
scripted model does. The second control makes one for each piece and does nothing else with it: that is the
least that any reader of events can cost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from bench.rounds import MILLI, Sample, Scale, compare, take_turns
from bench.table import Row, row
from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope
from holdfast.core.events import TextDelta, TurnCompleted
from holdfast.host import HostOptions, HostParts, SessionHost
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.models.contract import ModelRequest, TextPiece
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.tools.open_questions import OpenQuestions

PIECES, AT_ONCE = 50_000, 100
WINDOW = 1_000_000_000
REQUEST = ModelRequest(system="", messages=[])
ALONE, WITH_EVENTS = "the scripted model alone", "the model with an event made of each piece"
TURN, HOST = "through a turn", "through a host"

Read = Callable[[], Awaitable[None]]
Script = list[list[str | float]]


def event_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """Pieces of one long answer, beside the bare model."""
    loop, pools = asyncio.new_event_loop(), Pools()
    db = SessionDB(folder / "events.db")
    answers: Script = [["word " * AT_ONCE, 0] * (PIECES // AT_ONCE)] * (scale.rounds + 1)

    def agent(
        session_id: str, _: OpenQuestions | None = None, scope: AgentScope | None = None
    ) -> SessionAgent:
        own = AgentOptions(pools=pools, scope=scope or AgentScope())
        return SessionAgent(_model(answers), db, session_id, options=own)

    # The buffer holds the whole answer: a reader that falls behind would get a snapshot instead of events.
    options = HostOptions(replay=2 * PIECES)
    parts = HostParts(db, MemoryManager(db), SessionLifecycle(db), agent, pools, options)
    host = loop.run_until_complete(SessionHost(parts).__aenter__())
    loop.run_until_complete(host.new_session(session_id="host"))
    readers = {
        ALONE: _reads_pieces(_model(answers)),
        WITH_EVENTS: _makes_events(_model(answers)),
        TURN: _reads_turn(agent("turn")),
        HOST: _reads_host(host),
    }
    samples = take_turns(
        {name: _runner(loop, read) for name, read in readers.items()}, rounds=scale.rounds, operations=PIECES
    )
    yield _row(samples, ALONE, TURN)
    yield _row(samples, WITH_EVENTS, TURN, at_least=0.6)
    yield _row(samples, WITH_EVENTS, HOST)
    loop.run_until_complete(host.close())
    loop.close()
    pools.close(1)
    db.close()


def _model(answers: Script) -> ScriptedModel:
    return ScriptedModel(answers, record=False, context_window=WINDOW)


def _runner(loop: asyncio.AbstractEventLoop, read: Read) -> Callable[[], object]:
    return lambda: loop.run_until_complete(read())


def _reads_pieces(model: ScriptedModel) -> Read:
    async def read() -> None:
        async for _ in model.stream(REQUEST):
            pass

    return read


def _makes_events(model: ScriptedModel) -> Read:
    async def read() -> None:
        async for piece in model.stream(REQUEST):
            if isinstance(piece, TextPiece):
                TextDelta(session_id="s", turn_id="t", text=piece.text)

    return read


def _reads_turn(agent: SessionAgent) -> Read:
    async def read() -> None:
        async for _ in agent.stream("go"):
            pass

    return read


def _reads_host(host: SessionHost) -> Read:
    async def read() -> None:
        batches = await host.event_batches("host", from_now=True)
        await host.send("host", "go")
        async for batch in batches:
            if any(isinstance(each.event, TurnCompleted) for each in batch):
                break
        await batches.aclose()

    return read


def _row(samples: dict[str, list[Sample]], control: str, reader: str, at_least: float | None = None) -> Row:
    rates = [[MILLI / each.cpu for each in samples[name]] for name in (control, reader)]
    return row(f"events a second of CPU: {control}, {reader}", "/s", compare(*rates), at_least=at_least)
