"""Start-up and the host: how soon the program is there, and what the host adds to a turn.

The control of a start is the bare interpreter; that of a turn through the host is the same turn of an agent.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from pathlib import Path

from bench.rounds import Scale, compare, take_turns
from bench.start_up import MAIN, start_rows
from bench.table import Row, number, row
from bench.turns import AtOnce, look
from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope
from holdfast.core.events import TurnCompleted
from holdfast.host import HostOptions, HostParts, SessionHost
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.sessions import SessionDB
from holdfast.tools.open_questions import OpenQuestions

MANY = 200


def surface_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    yield from _start_rows(scale)
    yield from start_rows(folder, 3)
    yield from _host_rows(folder, scale)


def _start_rows(scale: Scale) -> Iterator[Row]:
    def run(*arguments: str) -> Callable[[], object]:
        return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)

    samples = take_turns(
        {"bare": run("-c", "pass"), "version": run("-c", MAIN, "--version")}, rounds=max(4, scale.rounds)
    )
    walls = [[each.wall for each in samples[name]] for name in ("bare", "version")]
    yield row("start: the bare interpreter, `holdfast --version`", "ms", compare(*walls))


def _host_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    loop, pools = asyncio.new_event_loop(), Pools()
    db = SessionDB(folder / "host.db")
    memory = MemoryManager(db)

    def make_agent(session_id: str, _: OpenQuestions, scope: AgentScope) -> SessionAgent:
        return SessionAgent(
            AtOnce(), db, session_id, memory, [look()], AgentOptions(pools=pools, scope=scope)
        )

    parts = HostParts(db, memory, SessionLifecycle(db), make_agent, pools, HostOptions(agents=MANY))
    host = loop.run_until_complete(SessionHost(parts).__aenter__())
    alone = make_agent("alone", OpenQuestions(), AgentScope())
    turns = 10

    seen = 0

    async def through_the_host() -> None:
        nonlocal seen
        for _ in range(turns):
            seen = await _answered(host, "hosted", seen)

    async def by_itself() -> None:
        for _ in range(turns):
            await alone.run("u" * 200)

    samples = take_turns(
        {
            "agent": lambda: loop.run_until_complete(by_itself()),
            "host": lambda: loop.run_until_complete(through_the_host()),
        },
        rounds=scale.rounds,
        operations=turns,
    )
    for kind, name in (("wall", "wall"), ("cpu", "CPU")):
        values = [[getattr(each, kind) for each in samples[who]] for who in ("agent", "host")]
        yield row(
            f"a turn with one tool call: the agent alone, through the host, {name}", "ms", compare(*values)
        )

    async def many() -> None:
        await asyncio.gather(*(_answered(host, f"many-{each}") for each in range(MANY)))

    begun = time.perf_counter()
    loop.run_until_complete(many())
    taken = time.perf_counter() - begun
    yield Row(f"{MANY} sessions at once, a turn each", "", f"{number(taken * 1000)} ms", "")
    loop.run_until_complete(host.close())
    loop.close()


async def _answered(host: SessionHost, session: str, after: int = 0) -> int:
    """Send a message and read on from a number until its turn is completed; returns where that was."""
    accepted = await host.send(session, "u" * 200)
    begun = False
    async with aclosing(host.events(session, after=after)) as events:
        async for numbered in events:
            event = numbered.event
            begun = begun or getattr(event, "inbox_id", 0) == accepted.inbox_id
            if begun and isinstance(event, TurnCompleted):
                return numbered.number
    raise RuntimeError("the stream ended before the turn")
