"""The turn itself: what it costs around a model that answers at once, with one tool call.

The control of a turn is the same turn in a session with one message of history; beside it stands one with
a long history. Memory per session is what a process grows by, divided by the sessions it holds.
"""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.rounds import Scale, compare, take_turns
from bench.table import Row, number, row
from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.models.contract import ModelRequest
from holdfast.sessions import SessionDB
from holdfast.testing import Call, ScriptedModel
from holdfast.tools.contract import Tool, ToolContext, ToolResult

USER, ASSISTANT = "u" * 200, "a" * 800
WINDOW = 1_000_000_000
IDLE, RUNNING = 500, 200


class AtOnce(ScriptedModel):
    """Calls a tool and then answers, for ever, without a delay and without remembering."""

    def __init__(self, answer: str = ASSISTANT) -> None:
        super().__init__(record=False, context_window=WINDOW)
        self._answers = (Call("look", {"at": "it"}), answer)

    async def stream(self, request: ModelRequest) -> Any:  # noqa: ANN401
        self._script = [self._answers[self.played % 2]]
        played, self.played = self.played, 0
        async for piece in super().stream(request):
            yield piece
        self.played = played + 1


def look() -> Tool:
    async def run(context: ToolContext, arguments: dict[str, Any]) -> ToolResult:  # noqa: ARG001
        return ToolResult("seen")

    return Tool("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}}, run)


def an_agent(db: SessionDB, session: str, history: int, pools: Pools) -> SessionAgent:
    db.create_session(session, source="bench")
    said = [{"role": "user", "content": USER}, {"role": "assistant", "content": ASSISTANT}]
    db.sessions.append_messages(session, (said * (history // 2 + 1))[:history])  # type: ignore[arg-type]
    return SessionAgent(AtOnce(), db, session, tools=[look()], options=AgentOptions(pools=pools))


def turn_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    """Wall and CPU of a whole turn: two steps, one tool call, five messages stored in four commits."""
    loop, pools = asyncio.new_event_loop(), Pools()
    db = SessionDB(folder / "turns.db")
    short, long = an_agent(db, "short", 1, pools), an_agent(db, "long", scale.session, pools)
    turns = 20

    def run(agent: SessionAgent) -> Callable[[], object]:
        async def several() -> None:
            for _ in range(turns):
                await agent.run(USER)

        return lambda: loop.run_until_complete(several())

    samples = take_turns({"short": run(short), "long": run(long)}, rounds=scale.rounds, operations=turns)
    what = f"a turn with one tool call: 1 message of history, {scale.session:,}"
    for kind in ("wall", "cpu"):
        yield row(
            f"{what}, {'CPU' if kind == 'cpu' else 'wall'}",
            "ms",
            compare(*([getattr(each, kind) for each in samples[name]] for name in ("short", "long"))),
            at_most=1.25,
        )
    yield from _memory_rows(loop, db, pools)
    loop.close()
    pools.close(1)
    db.close()


def _memory_rows(loop: asyncio.AbstractEventLoop, db: SessionDB, pools: Pools) -> Iterator[Row]:
    """How much a process grows by each session with ten turns behind it, idle and in mid-turn."""
    kept: list[SessionAgent] = []
    before = resident()
    for session in range(IDLE):
        agent = an_agent(db, f"idle-{session}", 20, pools)
        loop.run_until_complete(agent.run(USER))
        kept.append(agent)
    idle = (resident() - before) / IDLE

    async def all_running() -> float:
        stuck, everybody = asyncio.Event(), asyncio.Barrier(RUNNING + 1)

        async def hang(_: ModelRequest) -> str:
            await everybody.wait()
            await stuck.wait()
            return "done"

        options = AgentOptions(pools=pools)
        agents = [
            SessionAgent(ScriptedModel([hang], record=False), db, f"running-{each}", options=options)
            for each in range(RUNNING)
        ]
        before = resident()
        turns = [asyncio.create_task(agent.run(USER)) for agent in agents]
        await everybody.wait()
        grown = (resident() - before) / RUNNING
        stuck.set()
        await asyncio.gather(*turns)
        return grown

    running = loop.run_until_complete(all_running())
    yield Row(f"memory of an idle session with 24 messages, of {IDLE}", "", f"{number(idle / 1024)} KiB", "")
    yield Row(f"memory of a running turn, of {RUNNING}", "", f"{number(running / 1024)} KiB", "")


def resident() -> int:
    """Bytes of memory that this process has now."""
    with Path("/proc/self/statm").open(encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
